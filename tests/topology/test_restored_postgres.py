"""A dump of PostgreSQL, restored into a new database under the commands of docker-compose.yml.

With `pg_dump` and `pg_restore` as an operator runs them, while agents work.
"""

import os
import secrets
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis

from tests.demo.paper import free_port
from tests.faults.processes import ROOT, clean_environment, python
from tests.support import misbehaving_targets, trading_desk, working_agents
from tests.support.misbehaving_targets import StandIn
from tests.support.wait_until import until
from tests.topology.test_production import ADMIN_URL, BIN, REDIS_URL, SERVICES, START_S, Installation
from tests.topology.test_restored import ANSWER, PASSWORD, newest_within, read

pytestmark = pytest.mark.slow
PROCESSES = ("web", "worker", "notices", "sealer", "beat")
ACCEPTED = 10
AGENTS = 3
# While no worker runs, nothing of it is called.
ACCEPT = f"""
import django; django.setup()
from tests.support import trading_desk
import sys
desk = trading_desk.open_desk(base_url=sys.argv[1])
for _ in range({ACCEPTED}):
    print(trading_desk.flow_of(desk.accept(window_s=3600)).pk)
"""


class Console(Installation):
    """A production install whose database can be dumped, and restored into another one."""

    @property
    def database_url(self) -> str:
        return self.env["DATABASE_URL"]

    @property
    def witness(self) -> Path:
        return Path(self.env["DIR_WITNESS"])

    def run(self, argv: list[str], typed: str = "") -> str:
        """With more patience: a dump takes longer than a command. What it prints, or else reports."""
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            input=typed,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout or done.stderr

    def start_all(self) -> None:
        for name in PROCESSES:
            self.start(name)
        until(lambda: self.answers("/livez"), timeout_s=START_S, interval_s=0.2)

    def stop_all(self) -> None:
        for process in self.processes.values():
            process.stop()
        self.processes.clear()

    def finish(self, name: str) -> None:
        """As `docker compose stop` does: the first process gets the signal, and what runs is finished."""
        running = self.processes.pop(name).running
        assert running is not None
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=90) == 0

    def dump(self, file: Path) -> None:
        self.run(["pg_dump", "--format=custom", f"--file={file}", self.database_url])

    def restore(self, file: Path) -> None:
        """Into a new database, which is used from now on; the old one is gone."""
        old, name = self.database_url.rpartition("/")[2], f"dir_restored_{os.getpid()}_{secrets.token_hex(4)}"
        with psycopg.connect(ADMIN_URL, autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{name}"')
            admin.execute(f'DROP DATABASE "{old}" WITH (FORCE)')
        self.env["DATABASE_URL"] = f"{ADMIN_URL.rpartition('/')[0]}/{name}"
        self.run(["pg_restore", "--exit-on-error", "--no-owner", f"--dbname={self.database_url}", str(file)])

    def states(self) -> dict[str, int]:
        rows = self.rows("SELECT state, count(*) FROM runtime_intent GROUP BY state")
        return dict(rows)

    def rows(self, sql: str) -> list[tuple[str, int]]:
        with closing(psycopg.connect(self.database_url)) as reader:
            return reader.execute(sql).fetchall()

    def tree_size(self) -> int:
        return int(self.rows("SELECT 'size', size FROM audit_tree")[0][1])

    def epochs(self) -> tuple[int, bool]:
        """How many lives the database had, and whether the last one waits for an admin."""
        rows = self.rows("SELECT restored_at IS NOT NULL, number FROM runtime_epoch ORDER BY number")
        return len(rows), bool(rows[-1][0])

    def prepare_desk(self, target: StandIn) -> str:
        """Load the trial pack and add the admin ada; the key of the pack's agent."""
        pack = self.folder / "trial.yaml"
        pack.write_text(trading_desk.pack(base_url=target.base_url))
        self.manage("load_pack", str(pack), "--activate")
        added = ("manage.py", "add_user", "ada", "--role", "admin", "--password-stdin")
        self.run(python(*added), typed=PASSWORD)
        return self.manage("issue_key", trading_desk.AGENT).split()[0]

    def leave_recovery(self) -> str:
        """As the admin ada; what the command says."""
        words = ("manage.py", "leave_recovery", "ada", "--reason", "drill", "--password-stdin")
        return self.run(python(*words), typed=PASSWORD)

    def evidence_is_proved(self, dfid: str) -> bool:
        """Export the evidence of a flow and check it with the program that is in it."""
        pack = self.folder / f"{dfid}.zip"
        self.manage("export_evidence", dfid, "--out", str(pack))
        said = self.run(python("-I", str(ROOT / "audit/packs/verify.py"), str(pack)))
        pack.unlink()
        return "record" in said


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A migrated database and a witness folder; no process runs yet, and no mark is kept."""
    if shutil.which("pg_dump") is None or shutil.which("pg_restore") is None:
        pytest.skip("pg_dump and pg_restore are not installed")
    try:
        admin = psycopg.connect(ADMIN_URL, autocommit=True)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at DIR_TEST_POSTGRES: {error}")
    broker = redis.Redis.from_url(REDIS_URL, socket_connect_timeout=2)
    try:
        broker.ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at DIR_TEST_REDIS: {error}")
    name = f"dir_dumped_{os.getpid()}_{secrets.token_hex(4)}"
    admin.execute(f'CREATE DATABASE "{name}"')
    broker.flushdb()
    (tmp_path / "witness").mkdir()
    made = Console(
        folder=tmp_path,
        port=free_port(),
        env=clean_environment(
            {
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "DIR_DATA": str(tmp_path),
                "DATABASE_URL": f"{ADMIN_URL.rpartition('/')[0]}/{name}",
                "REDIS_URL": REDIS_URL,
                "DIR_SECRET_KEY": secrets.token_urlsafe(48),
                "DIR_SIGNING_KEY": b64encode(secrets.token_bytes(32)).decode(),
                "DIR_PAYLOAD_KEY": b64encode(secrets.token_bytes(32)).decode(),
                "DIR_EGRESS_ALLOW": "127.0.0.1",
                "DIR_MARK": "",
                "DIR_WITNESS": str(tmp_path / "witness"),
                "DIR_WITNESS_EVERY_S": "1",
            }
        ),
    )
    try:
        made.run(made.argv(SERVICES["migrate"]["command"]))
        yield made
    finally:
        print(made.logs())
        made.stop_all()
        broker.flushdb()
        broker.close()
        for each in {name, made.database_url.rpartition("/")[2]}:
            admin.execute(f'DROP DATABASE IF EXISTS "{each}" WITH (FORCE)')
        admin.close()


@pytest.fixture
def target() -> Iterator[StandIn]:
    with misbehaving_targets.stand_in(ANSWER) as running:
        yield running


def calls(target: StandIn) -> int:
    """How many calls it got, each of which has a key of its own."""
    keys = [seen.headers["Idempotency-Key"] for seen in target.seen]
    assert len(keys) == len(set(keys)), "something was called twice"
    return len(keys)


def test_a_move_to_another_database_loses_nothing(console: Console, target: StandIn) -> None:
    """Stopped, dumped, restored: nobody has to answer for anything, and what waited is executed once."""
    flows = console.run(python("-c", ACCEPT, target.base_url)).split()
    console.manage("checkpoint", "--witness")
    (place,) = console.witness.iterdir()
    before = read(place / "latest.txt")
    kept = console.folder / "kept.txt"
    shutil.copy(place / "latest.txt", kept)
    console.dump(console.folder / "console.dump")
    console.restore(console.folder / "console.dump")
    assert "intact" in console.manage("verify_ledger", "--from", str(kept))
    assert target.seen == []

    console.start_all()
    until(lambda: console.states() == {"DONE": ACCEPTED}, timeout_s=150)
    until(lambda: read(place / "latest.txt").size > before.size, timeout_s=90)
    until(lambda: read(place / "latest.txt").size == console.tree_size(), timeout_s=90)
    console.stop_all()
    assert calls(target) == ACCEPTED
    assert [path.name for path in console.witness.iterdir()] == [place.name]
    for path in (kept, place / "latest.txt"):
        assert "intact" in console.manage("verify_ledger", "--from", str(path))
    assert console.evidence_is_proved(flows[0])


def test_a_dump_made_under_load_calls_nothing_again(console: Console) -> None:
    with misbehaving_targets.stand_in(ANSWER) as target:
        key = console.prepare_desk(target)
        console.start_all()
        agents = working_agents.connect(base_url=console.base_url, key=key, count=AGENTS)
        with working_agents.working(agents) as flows:
            until(lambda: target.seen, timeout_s=90)
            # So that some of it is done, and some surely waits.
            console.finish("worker")
            stopped_at = len(flows)
            until(lambda: len(flows) >= stopped_at + ACCEPTED, timeout_s=90)
            kept = console.folder / "kept.txt"
            kept.write_text(console.manage("checkpoint"))
            console.dump(console.folder / "console.dump")
            made_at = len(flows)
            until(lambda: len(flows) >= made_at + ACCEPTED, timeout_s=90)
        console.start("worker")
        until(lambda: console.states() == {"DONE": len(flows)}, timeout_s=150)
        (place,) = console.witness.iterdir()
        until(lambda: read(place / "latest.txt").size == console.tree_size(), timeout_s=90)
        lost = read(place / "latest.txt")
        console.stop_all()
        working_agents.disconnect(agents)
        made = calls(target)

        console.restore(console.folder / "console.dump")
        assert console.states().keys() & {"PENDING", "CLAIMED"}, "what was under way is in the dump"
        size = console.tree_size()
        assert lost.size > size
        console.start_all()
        until(lambda: console.epochs() == (1, True), timeout_s=90)
        until(lambda: console.states().keys() <= {"IN_DOUBT", "DONE"}, timeout_s=150)
        assert f"The witness {console.witness} holds" in console.leave_recovery()
        assert console.epochs() == (2, False)
        until(console.is_ready, timeout_s=START_S)
        assert agents[0].handshake()["epoch"] == 2
        dfid = working_agents.propose(agents[0])
        until(lambda: agents[0].flow(dfid)["state"] == "CLOSED", timeout_s=90)
        working_agents.disconnect(agents)
        later = console.witness / f"{place.name}-epoch-2" / "latest.txt"
        until(lambda: later.is_file() and read(later).size == console.tree_size(), timeout_s=90)
        console.stop_all()
        assert calls(target) == made + 1
    assert read(place / "latest.txt") == lost
    for path in (kept, newest_within(place, size), later):
        assert "intact" in console.manage("verify_ledger", "--from", str(path))
    for flow in (flows[0], dfid):
        assert console.evidence_is_proved(flow)
