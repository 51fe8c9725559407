"""The demo as `manage.py up --demo` starts it: lively, complete, and gone with its server."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo import running_world
from tests.demo.paper import free_port, gone
from tests.faults.processes import ROOT, Process, python
from tests.support.console_shell import ConsoleShell
from tests.support.wait_until import until

PORT = free_port()
BASE = f"http://127.0.0.1:{PORT}"

pytestmark = [pytest.mark.faults, pytest.mark.slow]

_SEEN = """
from runtime.models import Consultation, FactVersion, Flow, Outcome, Verdict
answer = {
    "decisions": sorted(set(Verdict.objects.values_list("decision", flat=True))),
    "reasons": sorted(set(Flow.objects.values_list("reason", flat=True))),
    "outcomes": sorted(set(Outcome.objects.values_list("status", flat=True))),
    "consulted": sorted(set(Consultation.objects.values_list("state", flat=True))),
    "prices": FactVersion.objects.filter(path__startswith="price.", writer__startswith="feed:").count(),
}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Process]:
    """A new folder, started with its demo."""
    with running_world.started(tmp_path_factory.mktemp("world"), migrated_file, port=PORT) as server:
        yield server


def _manage(world: Process, *words: str) -> str:
    return subprocess.run(
        python("manage.py", *words), cwd=ROOT, env=dict(world.env), capture_output=True, text=True, check=True
    ).stdout


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for words in lists for word in words.read_text().split()]


def test_shows_every_verdict_before_long(shell: ConsoleShell) -> None:
    wanted = {"ACCEPT", "ESCALATE", "REJECT", "REASONING_EXHAUSTION", "SUCCEEDED", "ANSWERED"}

    def lively() -> bool:
        seen = shell.ask(_SEEN)
        told = {*seen["decisions"], *seen["reasons"], *seen["outcomes"], *seen["consulted"]}
        return wanted <= told and seen["prices"] > 0

    until(lively, timeout_s=600, interval_s=1)


def test_serves_the_agent_of_the_quick_start(world: Process) -> None:
    key = _manage(world, "issue_key", "momentum-trader").strip()
    env = {**world.env, "AGENT_ID": "momentum-trader", "AGENT_KEY": key}

    done = subprocess.run(
        python("docs/examples/agent.py", BASE), cwd=ROOT, env=env, capture_output=True, text=True, timeout=40
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ACCEPT ACCEPTED []\n")
    assert "EXECUTION_OUTCOME" in done.stdout


def test_ends_with_a_killed_server(world: Process) -> None:
    assert world.running is not None
    server = world.running.pid
    children = until(lambda: found if len(found := _children(server)) == 4 else [], timeout_s=90)

    os.kill(server, signal.SIGKILL)

    until(lambda: all(gone(pid) for pid in children), timeout_s=90)
