"""The demo's processes are restarted when they crash and never outlive their launcher."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from demo import agents, supervisor
from demo.http_client import Unreachable, Wire
from demo.market import Schedule
from tests.demo.paper import free_port, gone
from tests.support.wait_until import until

NOWHERE = "http://127.0.0.1:9"
KEYS = {"momentum-trader": "agk_x.y"}


def _market(port: int) -> str | None:
    """``OPEN`` or ``CLOSED`` as the broker says; None while it does not answer."""
    wire = Wire(base_url=f"http://127.0.0.1:{port}", patience_s=0)
    try:
        answer = wire.call("GET", "/market")
        return str(answer.body["state"]) if answer.status == 200 else None
    except Unreachable:
        return None
    finally:
        wire.close()


def _start(folder: Path, port: int, market: Schedule = Schedule.CYCLE) -> supervisor.Children:
    return supervisor.start(
        base_url=NOWHERE,
        demo_dir=folder,
        keys=KEYS,
        feed_key="fdk_x.y",
        broker_port=port,
        market=market,
        secret="",
    )


def test_restarts_a_crashed_child_as_it_was_and_stops_them_all(tmp_path: Path) -> None:
    port = free_port()
    demo = _start(tmp_path, port, Schedule.CLOSED)
    try:
        until(lambda: len(demo.pids()) == 3 and _market(port) == "CLOSED", timeout_s=90)
        first = demo.pids()
        os.kill(first["broker"], signal.SIGKILL)
        until(lambda: demo.pids().get("broker") not in {None, first["broker"]}, timeout_s=90)
        until(lambda: _market(port) == "CLOSED", timeout_s=90)
        last = demo.pids()
    finally:
        demo.stop()

    assert all(gone(pid) for pid in last.values())


def test_hands_keys_over_in_a_file_of_the_owner_only(tmp_path: Path) -> None:
    demo = _start(tmp_path, free_port())
    try:
        file = tmp_path / "agent_keys.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert agents.read_keys(file=file, environ={}) == KEYS
        until(lambda: len(demo.pids()) == 3, timeout_s=90)
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in demo.pids().values()]
        assert not any(b"agk_" in line or b"fdk_" in line for line in lines)
    finally:
        demo.stop()


def test_agents_of_frameworks_get_their_own_keys_only(tmp_path: Path) -> None:
    keys = {**KEYS, "expense-graph": "agk_z.y"}
    demo = supervisor.start(
        base_url=NOWHERE, demo_dir=tmp_path, keys=keys, feed_key="fdk_x.y", broker_port=free_port(), secret=""
    )
    try:
        until(lambda: set(demo.pids()) == {"broker", "feed", "agents", "frameworks"}, timeout_s=90)
        for name, held in (("agent_keys.json", KEYS), ("framework_keys.json", {"expense-graph": "agk_z.y"})):
            file = tmp_path / name
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert agents.read_keys(file=file, environ={}) == held
    finally:
        demo.stop()


def test_dies_with_a_killed_launcher(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from demo import supervisor\n"
        f"demo = supervisor.start(base_url={NOWHERE!r}, demo_dir=Path(sys.argv[1]), keys={KEYS!r},"
        f" feed_key='fdk_x.y', broker_port={free_port()}, secret='')\n"
        "while len(demo.pids()) < 3: time.sleep(0.05)\n"
        "print(*demo.pids().values(), flush=True)\n"
        "time.sleep(60)\n"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    pids = [int(word) for word in launcher.stdout.readline().split()]
    launcher.kill()
    launcher.wait(timeout=60)
    launcher.stdout.close()

    assert len(pids) == 3
    until(lambda: all(gone(pid) for pid in pids), timeout_s=90)


def test_refuses_a_key_file_that_others_may_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{}")
    file.chmod(0o644)

    with pytest.raises(PermissionError):
        agents.read_keys(file=file, environ={})


def test_reads_keys_from_the_environment() -> None:
    environ = {"DIR_AGENT_KEY_UNSURE_ANALYST": "agk_a.b", "DIR_AGENT_KEY_OTHER": "agk_c.d"}

    assert agents.read_keys(file=None, environ=environ) == {"unsure-analyst": "agk_a.b"}
