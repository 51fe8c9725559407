"""A backup with accepted work in it, restored under a real server: nothing of it is called a second time."""

import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from demo.client import Client
from demo.http_client import CallRefused
from tests.demo.paper import free_port
from tests.faults.processes import ROOT, Process, clean_environment, python
from tests.support import databases, misbehaving_targets, trading_desk
from tests.support.wait_until import until
from tests.topology.test_locked import readyz
from tests.topology.test_up import stop, wait_ready

pytestmark = pytest.mark.slow
ACCEPTED = 10
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
