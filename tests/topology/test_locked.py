"""A database that another process keeps, or that takes nothing: told in seconds, and over when it is."""

import json
import resource
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.browser_client import Person
from bench.environment import Stand, manage
from tests.demo.paper import free_port
from tests.faults.processes import Process, clean_environment, python
from tests.support import databases, trading_desk
from tests.support.wait_until import until
from tests.topology.test_up import wait_ready

pytestmark = pytest.mark.slow
SECONDS = 12.0


@pytest.fixture
def stand(tmp_path: Path, migrated_file: Path) -> Stand:
    databases.put(migrated_file, tmp_path / "state")
    return Stand("SQLite", 1, clean_environment({"DIR_DATA": str(tmp_path / "state")}))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(stand: Stand, port: int, tmp_path: Path) -> Iterator[Process]:
    argv = python("manage.py", "up", "--no-demo", "--port", str(port), "--data", str(tmp_path / "state"))
    process = Process(name="up", argv=argv, env=stand.environ, log=tmp_path / "up.log")
    process.start()
    try:
        wait_ready(process, port)
        yield process
    finally:
        process.kill()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another process has begun to write, and takes its time."""
    with closing(sqlite3.connect(folder / "console.sqlite3", isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout=5000")
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def handshake(port: int, key: str) -> tuple[int, dict[str, Any], float]:
    """Status, body and seconds of a call that writes."""
    body = {"agent_id": trading_desk.AGENT, "manifest_version": "1.0.0", "protocol_version": "1.0.0"}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/handshake",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    start = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # our own address
            return answer.status, json.load(answer), time.monotonic() - start
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused), time.monotonic() - start


def agent_key(stand: Stand, folder: Path) -> str:
    (folder / "trial.yaml").write_text(trading_desk.pack(base_url="http://127.0.0.1:1"))
    manage(stand, "load_pack", str(folder / "trial.yaml"), "--activate")
    return manage(stand, "issue_key", trading_desk.AGENT)


def readyz(port: int) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_lock_of_another_process_is_a_503_within_seconds(
    server: Process, stand: Stand, port: int, tmp_path: Path
) -> None:
    key = agent_key(stand, tmp_path)
    person = Person(stand, f"http://127.0.0.1:{port}")
    answers: list[tuple[int, dict[str, Any], float]] = []
    with locked(tmp_path / "state"):
        callers = [threading.Thread(target=lambda: answers.append(handshake(port, key))) for _ in range(8)]
        for caller in callers:
            caller.start()
        start = time.monotonic()
        with pytest.raises(urllib.error.HTTPError) as stopped:
            person.press("/stop/", reason="a lock")
        took = time.monotonic() - start
        for caller in callers:
            caller.join()
    assert stopped.value.code == 503
    assert "The database is busy" in stopped.value.read().decode()
    assert took < SECONDS
    assert len(answers) == 8
    for status, problem, seconds in answers:
        assert (status, problem["code"], problem["retriable"]) == (503, "TEMPORARILY_UNAVAILABLE", True)
        assert seconds < SECONDS
    assert until(lambda: handshake(port, key)[0] == 200, timeout_s=30)
    person.press("/stop/", reason="no lock any more")


def test_a_disk_that_takes_nothing_more_shows_and_passes(
    server: Process, stand: Stand, port: int, tmp_path: Path
) -> None:
    key = agent_key(stand, tmp_path)
    assert handshake(port, key)[0] == 200
    assert server.running is not None
    pid = server.running.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
    status, problem, seconds = handshake(port, key)
    assert (status, problem["retriable"]) == (503, True)
    assert seconds < SECONDS
    until(lambda: readyz(port)[0] == 503, timeout_s=90, interval_s=0.5)
    _, body = readyz(port)
    assert set(body["failing"]) == {"sweeper"}
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    until(lambda: readyz(port)[0] == 200, timeout_s=60, interval_s=0.5)
    assert handshake(port, key)[0] == 200
