"""Kill switches: pressed once, lifted once, recorded, and the waiting work is rung for."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.contracts.states import IntentState
from runtime.core import clock, ports
from runtime.flows.models import Intent
from runtime.registry.models import Agent, Stop
from runtime.stops.services import stops
from tests.support import api_client


@pytest.fixture(autouse=True)
def _desk(db: None) -> None:
    api_client.load_pack()


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The intents that the doorbell was rung for."""
    ids: list[UUID] = []

    def ring(intent_ids: Sequence[UUID]) -> None:
        ids.extend(intent_ids)

    monkeypatch.setattr(ports, "ring", ring)
    return ids


def accepted(agent_id: str) -> UUID:
    caller = api_client.session(agent_id)
    dfid = caller.open_flow()
    verdict = caller.propose(dfid, api_client.proposal(caller.context(dfid))).ok()
    return UUID(verdict["intent_id"])


def kinds(stream: str) -> list[str]:
    rows = LedgerEntry.objects.filter(stream=stream).order_by("seq")
    return [row.kind for row in rows if "stopped" in row.kind or "resumed" in row.kind]


def test_everything_stops_once_and_resumes_once() -> None:
    first = stops.stop_all(tenant="default", actor="user:1", reason="fire")
    again = stops.stop_all(tenant="default", actor="user:2", reason="smoke")
    assert again.pk == first.pk
    assert Stop.objects.get().reason == "fire"
    assert stops.resume_all(tenant="default", actor="user:2") is True
    assert stops.resume_all(tenant="default", actor="user:2") is False
    assert kinds("system") == ["system:stopped", "system:resumed"]
    stop = Stop.objects.get()
    assert (stop.stopped_by, stop.lifted_by) == ("user:1", "user:2")
    assert stops.stop_all(tenant="default", actor="user:1", reason="again").pk != first.pk


def test_one_tenants_stop_is_not_anothers() -> None:
    stops.stop_all(tenant="other", actor="user:1", reason="fire")
    assert stops.resume_all(tenant="default", actor="user:1") is False


def test_an_agent_stops_once_and_resumes_once() -> None:
    for reason in ("first", "second"):
        answer = stops.stop_agent(tenant="default", agent_id="trader", actor="user:1", reason=reason)
        assert isinstance(answer, Agent)
    agent = Agent.objects.get(agent_id="trader")
    assert (agent.stop_reason, agent.stopped_by, agent.status) == ("first", "user:1", "ACTIVE")
    for _ in range(2):
        assert isinstance(stops.resume_agent(tenant="default", agent_id="trader", actor="user:1"), Agent)
    assert Agent.objects.get(agent_id="trader").stopped_at is None
    assert kinds("agent:trader") == ["agent:stopped", "agent:resumed"]


def test_an_unknown_agent_is_a_problem() -> None:
    assert isinstance(stops.stop_agent(tenant="default", agent_id="x", actor="u", reason="r"), Problem)
    assert isinstance(stops.resume_agent(tenant="other", agent_id="trader", actor="u"), Problem)


@pytest.mark.usefixtures("rung")
def test_a_resume_rings_for_what_is_due(rung: list[UUID], django_capture_on_commit_callbacks: object) -> None:
    due, later, foreign = accepted("trader"), accepted("trader"), accepted(api_client.OTHER)
    done = accepted("trader")
    Intent.objects.filter(pk=later).update(next_at=clock.now() + timedelta(minutes=5))
    Intent.objects.filter(pk=done).update(state=IntentState.DONE)
    stops.stop_all(tenant="default", actor="user:1", reason="fire")
    stops.stop_agent(tenant="default", agent_id="trader", actor="user:1", reason="fire")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        stops.resume_agent(tenant="default", agent_id="trader", actor="user:1")
    assert rung == [due]
    rung.clear()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        stops.resume_all(tenant="default", actor="user:1")
    assert sorted(rung) == sorted([due, foreign])
