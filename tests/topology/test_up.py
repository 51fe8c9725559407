"""`manage.py up` as a person starts it: a process, a folder, a terminal."""

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dir_console import single_process
from tests.demo.paper import free_port
from tests.faults.processes import ROOT, Process, clean_environment, python
from tests.support import databases
from tests.support.wait_until import until

pytestmark = pytest.mark.slow
START_S = 180.0
STOP_S = 60.0
Up = Callable[..., Process]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Starts `up` on a folder of this test; ends every process at last."""
    started: list[Process] = []

    def start(*words: str, port: int, env: dict[str, str] | None = None, folder: str = "state") -> Process:
        process = Process(
            name=f"up-{len(started)}",
            argv=python("manage.py", "up", "--port", str(port), "--data", str(tmp_path / folder), *words),
            env=clean_environment(env or {}),
            log=tmp_path / f"up-{len(started)}.log",
        )
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def is_ready(process: Process, port: int) -> bool:
    assert process.alive(), process.tail()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_ready(process: Process, port: int) -> None:
    until(lambda: is_ready(process, port), timeout_s=START_S, interval_s=0.1)
    until(lambda: "Stop it with Ctrl-C." in process.log.read_text(), timeout_s=START_S)


def stop(process: Process, number: signal.Signals) -> float:
    """Send the signal to the server alone; seconds until its clean end."""
    assert process.running is not None
    start = time.monotonic()
    process.running.send_signal(number)
    assert process.running.wait(timeout=60) == 0, process.tail()
    return time.monotonic() - start


def refused(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        python("manage.py", "up", *words),
        cwd=ROOT,
        env=clean_environment(env or {}),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def rows(folder: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{folder / 'console.sqlite3'}?mode=ro", uri=True)) as reader:
        return reader.execute(sql).fetchall()


def children_of(session: int) -> set[int]:
    """Processes of the session besides its leader, zombies aside."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != session:
            try:
                state, _, _, owner = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
            except OSError:
                continue  # it ended while we looked
            if int(owner) == session and state != "Z":
                found.add(int(entry.name))
    return found


def test_a_new_folder_starts_with_the_demo_and_ends_with_all_of_it(up: Up, tmp_path: Path) -> None:
    folder, port = tmp_path / "state", free_port()
    process = up(port=port)
    wait_ready(process, port)
    said = process.log.read_text()
    assert f"DIR Console is running at http://127.0.0.1:{port}/" in said
    assert re.search(r"Sign in as operator with the password \S{16}\n", said)
    until(lambda: rows(folder, "SELECT 1 FROM runtime_outcome WHERE status = 'SUCCEEDED'"), timeout_s=60)
    for name in ("issued_keys.json", "broker_secret", "agent_keys.json"):
        assert stat.S_IMODE((folder / "demo" / name).stat().st_mode) == 0o600

    assert process.running is not None
    session = process.running.pid
    assert len(children_of(session)) == 4
    second = refused("--port", str(free_port()), "--data", str(folder))
    assert f"Another console is running on {folder}" in second
    assert stop(process, signal.SIGTERM) < STOP_S
    until(lambda: not children_of(session), timeout_s=90)
    assert not rows(folder, "SELECT 1 FROM runtime_intent WHERE state = 'CLAIMED'")

    keys = json.loads((folder / "demo" / "issued_keys.json").read_text())
    again = up(port=port)
    wait_ready(again, port)
    said = again.log.read_text()
    assert "password" not in said
    assert "The demo is running" in said, "an existing folder remembers its demo"
    assert json.loads((folder / "demo" / "issued_keys.json").read_text()) == keys
    assert stop(again, signal.SIGINT) < STOP_S
    assert "Traceback" not in again.log.read_text()


def test_without_the_demo_the_console_is_empty_and_stays_so(
    up: Up, tmp_path: Path, migrated_file: Path
) -> None:
    databases.put(migrated_file, tmp_path / "state")
    folder, port = tmp_path / "state", free_port()
    process = up("--no-demo", port=port)
    wait_ready(process, port)
    assert "The console is empty" in process.log.read_text()
    assert not rows(folder, "SELECT 1 FROM runtime_agent")
    assert not (folder / "demo").exists()
    stop(process, signal.SIGTERM)
    again = up(port=port)
    wait_ready(again, port)
    assert "The demo is running" not in again.log.read_text()


def test_a_killed_server_leaves_no_child_and_its_folder_free(
    up: Up, tmp_path: Path, migrated_file: Path
) -> None:
    databases.put(migrated_file, tmp_path / "state")
    port = free_port()
    process = up(port=port)
    wait_ready(process, port)
    assert process.running is not None
    session = process.running.pid
    until(lambda: len(children_of(session)) == 4, timeout_s=90)
    os.kill(session, signal.SIGKILL)
    process.running.wait(timeout=60)
    until(lambda: not children_of(session), timeout_s=90)
    again = up(port=port)
    wait_ready(again, port)
    assert stop(again, signal.SIGTERM) < STOP_S


def test_a_second_server_cannot_start_though_every_lock_file_is_gone(
    up: Up, tmp_path: Path, migrated_file: Path
) -> None:
    databases.put(migrated_file, tmp_path / "state")
    folder, port = tmp_path / "state", free_port()
    wait_ready(up("--no-demo", port=port), port)
    for lock in folder.glob("*.lock"):
        lock.unlink()
    second = refused("--port", str(free_port()), "--data", str(folder))
    assert f"Another console is running on {folder}" in second


def test_a_later_server_on_the_same_file_takes_the_work_from_the_first(
    up: Up, tmp_path: Path, migrated_file: Path
) -> None:
    """Two folders, one database: no lock of a folder can tell."""
    databases.put(migrated_file, tmp_path / "state")
    port = free_port()
    first = up("--no-demo", port=port)
    wait_ready(first, port)
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "console.sqlite3").symlink_to(tmp_path / "state" / "console.sqlite3")
    port = free_port()
    second = up("--no-demo", port=port, folder="other")
    wait_ready(second, port)
    until(lambda: "this one no longer executes anything" in first.log.read_text(), timeout_s=30)
    assert "this one no longer executes anything" not in second.log.read_text()


def test_nobody_else_of_the_machine_can_read_the_folder(up: Up, tmp_path: Path) -> None:
    folder, port = tmp_path / "state", free_port()
    process = up(port=port)
    wait_ready(process, port)
    assert "Other users of this machine" not in process.log.read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    until(lambda: (folder / "console.sqlite3-wal").exists())
    open_to_others = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert open_to_others == []
    stop(process, signal.SIGTERM)
    (folder / "console.sqlite3").chmod(0o644)
    process = up(port=port)
    wait_ready(process, port)
    assert f"can read {folder / 'console.sqlite3'}" in process.log.read_text()


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL"])
def test_refuses_to_run_as_production(name: str, tmp_path: Path) -> None:
    value = {"DATABASE_URL": "sqlite:////tmp/x.sqlite3", "REDIS_URL": "redis://127.0.0.1:1/0"}[name]
    said = refused("--data", str(tmp_path / "state"), env={name: value})
    assert f"{name} is set" in said
    assert not (tmp_path / "state" / "console.sqlite3").exists()


def test_a_taken_port_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        said = refused("--port", str(other.getsockname()[1]), "--data", str(tmp_path / "state"))
    assert "Choose another with --port" in said
    assert not (tmp_path / "state" / "console.sqlite3").exists()


@pytest.mark.parametrize("port", ["70000", "-1", "http", "80 "])
def test_refuses_what_is_no_port(port: str, tmp_path: Path) -> None:
    done = subprocess.run(
        python("manage.py", "up", f"--port={port}", "--data", str(tmp_path)),
        cwd=ROOT,
        env=clean_environment({}),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode != 0
    assert "a port is a number" in done.stderr


def test_a_folder_is_locked_for_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        single_process.folder_lock(tmp_path),
        pytest.raises(single_process.FolderBusyError),
        single_process.folder_lock(tmp_path),
    ):
        pass
    with single_process.folder_lock(tmp_path):
        pass


def test_a_free_port_is_the_wanted_one_where_it_can_be() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert single_process.free_port(port) != port
    assert single_process.free_port(port) == port
