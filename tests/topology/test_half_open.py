"""Connections that never send a whole request keep nobody out and stop no execution."""

import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.browser_client import Person
from bench.environment import Stand, manage
from demo.client import Client
from tests.demo.paper import free_port
from tests.faults.processes import Process, clean_environment, python
from tests.support import databases, misbehaving_targets, trading_desk
from tests.support.wait_until import until
from tests.topology.test_up import wait_ready

pytestmark = pytest.mark.slow
FILES = 256
HALF_OPEN = 300
# The soft limit is lower still: the server raises it to the hard one by itself.
UNDER_A_LIMIT = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (128, int(sys.argv[1])));"
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


@pytest.fixture
def stand(tmp_path: Path, migrated_file: Path) -> Stand:
    databases.put(migrated_file, tmp_path / "state")
    environ = clean_environment({"DIR_DATA": str(tmp_path / "state"), "DIR_EGRESS_ALLOW": "127.0.0.1"})
    return Stand("SQLite", 1, environ)


@pytest.fixture
def port(stand: Stand, tmp_path: Path) -> Iterator[int]:
    """A server of `up` that may open few files."""
    wanted = free_port()
    up = ("manage.py", "up", "--no-demo", "--port", str(wanted), "--data", str(tmp_path / "state"))
    process = Process(
        name="up",
        argv=python("-c", UNDER_A_LIMIT, str(FILES), *up),
        env=stand.environ,
        log=tmp_path / "up.log",
    )
    process.start()
    try:
        wait_ready(process, wanted)
        yield wanted
        assert "unable to open database file" not in process.log.read_text()
    finally:
        process.kill()


def half_request(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10)
    made.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    return made


def seconds_of_livez(port: int) -> float:
    start = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=10) as answer:
        assert answer.status == 200
    return time.monotonic() - start


def test_half_open_connections_stop_neither_people_nor_execution(
    port: int, stand: Stand, tmp_path: Path
) -> None:
    base_url = f"http://127.0.0.1:{port}"
    with (
        misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as target,
        ExitStack() as held,
    ):
        person = Person(stand, base_url)
        (tmp_path / "trial.yaml").write_text(trading_desk.pack(base_url=target.base_url))
        manage(stand, "load_pack", str(tmp_path / "trial.yaml"), "--activate")
        key = manage(stand, "issue_key", trading_desk.AGENT)
        agent = Client(base_url=base_url, agent_id=trading_desk.AGENT, key=key)
        held.callback(agent.wire.close)
        for _ in range(HALF_OPEN):
            held.enter_context(half_request(port))
        assert seconds_of_livez(port) < 2
        dfid = agent.open_flow(trigger="trial")
        verdict = agent.propose(
            dfid,
            {
                "policy_kind": trading_desk.KIND,
                "params": {"symbol": "ABC", "quantity": 1},
                "execution_constraints": {"validity_window_sec": 60},
                "context_ref": agent.context(dfid).ref,
                "confidence": 0.9,
            },
        )
        assert verdict.verdict == "ACCEPT"
        until(lambda: agent.flow(dfid)["state"] == "CLOSED", timeout_s=10)
        assert len(target.seen) == 1
        start = time.monotonic()
        person.press("/stop/", reason="strangers at the door")
        assert time.monotonic() - start < 2
