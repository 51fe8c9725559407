"""A backup with accepted work in it, restored under a real server: nothing of it is called a second time."""

import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from audit.sealing import notes
from demo.client import Client
from demo.http_client import CallRefused
from tests.demo.paper import free_port
from tests.faults.processes import ROOT, Process, clean_environment, python
from tests.support import databases, misbehaving_targets, trading_desk, working_agents
from tests.support.wait_until import until
from tests.topology.test_locked import readyz
from tests.topology.test_up import stop, wait_ready

pytestmark = pytest.mark.slow
ACCEPTED = 10
AGENTS = 3
ANSWER = misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
PASSWORD = "a long pass word"
# While no server runs, nothing of it is called: the backup is made in this moment.
ACCEPT = f"""
import django; django.setup()
from tests.support import trading_desk
import sys
desk = trading_desk.open_desk(base_url=sys.argv[1])
for _ in range({ACCEPTED}):
    desk.accept(window_s=3600)
"""


@pytest.fixture
def env(tmp_path: Path, migrated_file: Path) -> dict[str, str]:
    databases.put(migrated_file, tmp_path / "state")
    return clean_environment({"DIR_DATA": str(tmp_path / "state"), "DIR_EGRESS_ALLOW": "127.0.0.1"})


@pytest.fixture
def server(env: dict[str, str], tmp_path: Path) -> Iterator[Process]:
    """A server of `up` on this test's folder; each start has the same port."""
    argv = python("manage.py", "up", "--no-demo", "--port", str(free_port()))
    process = Process(name="up", argv=argv, env=env, log=tmp_path / "up.log")
    yield process
    process.kill()


def port_of(server: Process) -> int:
    return int(server.argv[-1])


def run(env: dict[str, str], *words: str, typed: str = "", ok: bool = True) -> str:
    done = subprocess.run(
        python(*words),
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        input=typed,
        timeout=300,
        check=False,
    )
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def copy(database: Path, backup: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)


def put_back(database: Path, backup: Path) -> None:
    for name in ("console.sqlite3-wal", "console.sqlite3-shm"):
        database.with_name(name).unlink(missing_ok=True)
    shutil.copy(backup, database)


def read(path: Path) -> notes.Checkpoint:
    return notes.read(path.read_text()).checkpoint


def newest_within(place: Path, size: int) -> Path:
    """The checkpoint over the most entries that are not more than `size`."""
    files = [path for path in place.glob("0*.txt") if int(path.stem) <= size]
    return max(files, key=lambda path: int(path.stem))


def sealed(database: Path) -> int:
    with closing(sqlite3.connect(database)) as reader:
        return int(reader.execute("SELECT size FROM audit_tree").fetchone()[0])


def states(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as reader:
        return dict(reader.execute("SELECT state, count(*) FROM runtime_intent GROUP BY state").fetchall())


def test_a_restored_backup_calls_nothing_again(server: Process, env: dict[str, str], tmp_path: Path) -> None:
    database, backup = tmp_path / "state" / "console.sqlite3", tmp_path / "backup.sqlite3"
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as target:
        run(env, "-c", ACCEPT, target.base_url)
        key = run(env, "manage.py", "issue_key", trading_desk.AGENT).split()[0]
        run(
            env,
            "manage.py",
            "add_user",
            "ada",
            "--role",
            "admin",
            "--password-stdin",
            typed=PASSWORD,
        )
        copy(database, backup)
        server.start()
        wait_ready(server, port_of(server))
        until(lambda: states(database) == {"DONE": ACCEPTED}, timeout_s=150)
        assert len(target.seen) == ACCEPTED
        stop(server, signal.SIGTERM)

        put_back(database, backup)
        server.start()
        until(lambda: "a backup was restored" in server.log.read_text(), timeout_s=150)
        until(lambda: states(database) == {"IN_DOUBT": ACCEPTED}, timeout_s=150)
        until(lambda: readyz(port_of(server))[1]["failing"].get("recovery"), timeout_s=90)
        agent = Client(
            base_url=f"http://127.0.0.1:{port_of(server)}", agent_id=trading_desk.AGENT, key=key, patience_s=0
        )
        assert agent.handshake()["epoch"] == 1
        with pytest.raises(CallRefused, match="RECOVERY"):
            agent.open_flow(trigger="trial")
        assert "key" in run(env, "manage.py", "issue_key", trading_desk.AGENT, ok=False)

        said = run(
            env, "manage.py", "leave_recovery", "ada", "--reason", "drill", "--password-stdin",
            typed=PASSWORD,
        )  # fmt: skip
        assert "Epoch 2 has started" in said
        agent.wire.close()
        assert agent.handshake()["epoch"] == 2
        assert agent.open_flow(trigger="trial")
        until(lambda: readyz(port_of(server))[0] == 200, timeout_s=150)
        assert states(database) == {"IN_DOUBT": ACCEPTED}
        assert len(target.seen) == ACCEPTED
        stop(server, signal.SIGTERM)
        run(env, "manage.py", "verify_ledger")
        agent.wire.close()


def leave_recovery(env: dict[str, str]) -> None:
    """As the admin ada."""
    words = ("manage.py", "leave_recovery", "ada", "--reason", "drill", "--password-stdin")
    assert "Epoch 2 has started" in run(env, *words, typed=PASSWORD)


def prepare(env: dict[str, str], folder: Path, *, base_url: str) -> str:
    """Load the trial pack and add the admin ada; the key of the pack's agent."""
    pack = folder / "trial.yaml"
    # A held call takes ten seconds at most, and must not end in doubt by itself.
    text = trading_desk.pack(base_url=base_url).replace("target: broker,", "target: broker, timeout_s: 60,")
    pack.write_text(text)
    run(env, "manage.py", "load_pack", str(pack), "--activate")
    run(env, "manage.py", "add_user", "ada", "--role", "admin", "--password-stdin", typed=PASSWORD)
    return run(env, "manage.py", "issue_key", trading_desk.AGENT).split()[0]


@pytest.fixture
def witness(env: dict[str, str], tmp_path: Path) -> Path:
    """A folder elsewhere, which gets checkpoints; and no mark."""
    folder = tmp_path / "witness"
    folder.mkdir()
    env |= {"DIR_MARK": "", "DIR_WITNESS": str(folder), "DIR_WITNESS_EVERY_S": "1", "DIR_LEASE_S": "120"}
    return folder


def test_a_backup_made_under_load_is_found_by_the_witness_alone(
    server: Process, env: dict[str, str], tmp_path: Path, witness: Path
) -> None:
    """On another machine nothing is left but the backup, the keys and the witness."""
    database, backup = tmp_path / "state" / "console.sqlite3", tmp_path / "backup.sqlite3"
    with misbehaving_targets.stand_in(ANSWER, is_held=True) as target:
        key = prepare(env, tmp_path, base_url=target.base_url)
        server.start()
        wait_ready(server, port_of(server))
        url = f"http://127.0.0.1:{port_of(server)}"
        agents = working_agents.connect(base_url=url, key=key, count=AGENTS)
        with working_agents.working(agents) as flows:
            until(lambda: len(flows) >= ACCEPTED and target.seen, timeout_s=90)
            assert "checkpoint over" in run(env, "manage.py", "backup", str(backup))
            made_at = len(flows)
            until(lambda: len(flows) >= made_at + ACCEPTED, timeout_s=90)
        target.release.set()
        until(lambda: states(database) == {"DONE": len(flows)}, timeout_s=150)
        assert states(backup).keys() & {"PENDING", "CLAIMED"}, "what was under way is in the backup"
        (place,) = witness.iterdir()
        latest = place / "latest.txt"
        until(lambda: read(latest).size == sealed(database), timeout_s=90)
        lost = read(latest)
        stop(server, signal.SIGTERM)
        calls = len(target.seen)

        put_back(database, backup)
        server.start()
        until(lambda: "a backup was restored" in server.log.read_text(), timeout_s=150)
        named = f"The witness {witness} holds a checkpoint over {lost.size} entries"
        assert named in server.log.read_text()
        until(lambda: states(database).keys() <= {"IN_DOUBT", "DONE"}, timeout_s=150)
        until(lambda: readyz(port_of(server))[1]["failing"].get("recovery"), timeout_s=90)
        assert named in run(env, "manage.py", "leave_recovery")
        leave_recovery(env)
        until(lambda: readyz(port_of(server))[0] == 200, timeout_s=150)
        working_agents.disconnect(agents)
        assert agents[0].handshake()["epoch"] == 2
        dfid = working_agents.propose(agents[0])
        until(lambda: agents[0].flow(dfid)["state"] == "CLOSED", timeout_s=90)
        working_agents.disconnect(agents)
        later = witness / f"{place.name}-epoch-2" / "latest.txt"
        until(later.is_file, timeout_s=90)
        stop(server, signal.SIGTERM)
        keys = [seen.headers["Idempotency-Key"] for seen in target.seen]
        assert len(keys) == len(set(keys)) == calls + 1, "nothing was called again"
    assert read(latest) == lost, "what the lost time left stays"
    run(env, "manage.py", "checkpoint", "--witness")
    for kept in (newest_within(place, sealed(backup)), later):
        run(env, "manage.py", "verify_ledger", "--from", str(kept))
    assert "The first bad entry" in run(env, "manage.py", "verify_ledger", "--from", str(latest), ok=False)
