"""Agents of the demo that are built with frameworks: refused and mended over MCP, interrupted as a graph."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import frameworks, supervisor
from demo.frameworks import Assistant, Framework, Graph
from escalations.contracts import Action
from runtime.flows.models import Intent, Outcome, Proposal, Verdict
from tests.sdk.conftest import Desk, open_desk
from tests.support import api_client
from tests.support.wait_until import until

ROOT = Path(__file__).parents[2]
PACK = ROOT / "demo" / "expenses.yaml"


@pytest.fixture
def desk(real_db: str, settings: Any) -> Iterator[Desk]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with open_desk(PACK, receipt=b'{"status":"PAID"}') as desk:
        yield desk


def one(desk: Desk, agent: type[Framework], *, turns: int) -> Framework:
    """The agent before its turn of this number."""
    key = api_client.agent_key(agent.agent_id)
    return agent(desk.url, key, random.Random(7), threading.Event(), turns=turns)


def work_off(desk: Desk) -> None:
    """What the workers do with the next intent."""
    until(Intent.objects.filter(state="PENDING").exists)
    desk.work()


def test_the_pack_has_an_agent_for_each_framework() -> None:
    assert sorted(agent.agent_id for agent in frameworks.CAST) == sorted(supervisor.FRAMEWORKS)


def test_what_is_refused_over_mcp_is_mended_in_its_flow(desk: Desk) -> None:
    turn = desk.begin(one(desk, Assistant, turns=3).turn)
    work_off(desk)
    turn.result(timeout=60)
    assert list(Verdict.objects.order_by("judged_at").values_list("decision", flat=True)) == [
        "REJECT",
        "ACCEPT",
    ]
    assert Proposal.objects.values("flow").distinct().count() == 1
    assert Outcome.objects.get().status == "SUCCEEDED"


def test_most_calls_over_mcp_are_done_at_once(desk: Desk) -> None:
    turn = desk.begin(one(desk, Assistant, turns=1).turn)
    work_off(desk)
    turn.result(timeout=60)
    assert Verdict.objects.get().decision == "ACCEPT"
    assert Proposal.objects.get().explain == "The receipt is with the claim."


def test_the_graph_waits_for_a_person_and_goes_on(desk: Desk) -> None:
    agent = one(desk, Graph, turns=2)
    turn = desk.begin(agent.turn)
    desk.decide(Action.OVERRIDE)
    turn.result(timeout=60)
    assert Verdict.objects.earliest("judged_at").decision == "ESCALATE"
    assert Outcome.objects.get().status == "SUCCEEDED"
    # People are not asked again at once.
    turn = desk.begin(agent.turn)
    work_off(desk)
    turn.result(timeout=60)
    assert Verdict.objects.latest("judged_at").decision == "ACCEPT"


def test_trouble_is_waited_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = one(desk, Assistant, turns=0)
    pauses: list[float] = []

    def wait(pause_s: float) -> bool:
        pauses.append(pause_s)
        if len(pauses) == 2:
            agent.stop.set()
        return True

    def fail() -> None:
        raise ValueError("no console")

    monkeypatch.setattr(agent, "turn", fail)
    monkeypatch.setattr(agent.stop, "wait", wait)
    agent.run()
    assert agent.turns == 2
    assert min(pauses) > frameworks.TROUBLE_S


@pytest.mark.parametrize(("mode", "code"), [(0o600, 0), (0o644, 2)])
def test_the_program_ends_when_it_is_told_to(tmp_path: Path, mode: int, code: int) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"expense-assistant": "agk_x.y"}')
    keys.chmod(mode)
    argv = [sys.executable, "-m", "demo.frameworks", "--base", "http://127.0.0.1:9", "--keys", str(keys)]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT}/sdk", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(argv, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        said = program.stderr.readline()
        if code == 0:
            program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
    assert program.returncode == code
    assert ("may be read by others" in said) == (code == 2)
