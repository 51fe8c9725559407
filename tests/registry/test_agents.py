"""An agent's status moves by one table, and every move is recorded."""

import itertools

import pytest

from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.core import refusals
from runtime.registry.models import Agent
from runtime.registry.services import agents
from tests.support import api_client

PAIRS = list(itertools.product(AgentStatus, AgentStatus))


@pytest.fixture(autouse=True)
def _desk(db: None) -> None:
    api_client.load_pack()


def moved_to(status: AgentStatus, tenant: str = "default", agent_id: str = "trader") -> Agent | Problem:
    return agents.set_status(
        tenant=tenant, agent_id=agent_id, status=status, reason="because", actor="user:1"
    )


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_moves_as_the_table_says(before: AgentStatus, after: AgentStatus) -> None:
    Agent.objects.filter(agent_id="trader").update(status=before)
    answer = moved_to(after)
    allowed = after in agents.MOVES[before] or before is after
    assert isinstance(answer, Agent) is allowed
    assert Agent.objects.get(agent_id="trader").status == (after if allowed else before)
    recorded = LedgerEntry.objects.filter(kind="agent:status_changed")
    assert recorded.count() == (after in agents.MOVES[before])


def test_every_status_has_its_moves() -> None:
    assert set(agents.MOVES) == set(AgentStatus)
    assert agents.MOVES[AgentStatus.RETIRED] == ()


def test_a_move_is_recorded_with_who_and_why() -> None:
    moved_to(AgentStatus.SUSPENDED)
    entry = LedgerEntry.objects.get(kind="agent:status_changed")
    assert (entry.stream, entry.actor) == ("agent:trader", "user:1")
    assert entry.payload == {
        "agent_id": "trader",
        "from_status": "ACTIVE",
        "to_status": "SUSPENDED",
        "reason": "because",
    }
    assert Agent.objects.get(agent_id="trader").status_reason == "because"


def test_a_status_that_moved_since_it_was_seen_stays() -> None:
    Agent.objects.filter(agent_id="trader").update(status=AgentStatus.LOCKED)
    move = {"tenant": "default", "agent_id": "trader", "reason": "because", "actor": "user:1"}
    answer = agents.set_status(status=AgentStatus.SUSPENDED, seen=AgentStatus.ACTIVE, **move)
    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (409, "STATUS_MOVED")
    assert Agent.objects.get(agent_id="trader").status == AgentStatus.LOCKED
    assert isinstance(agents.set_status(status=AgentStatus.SUSPENDED, seen=AgentStatus.LOCKED, **move), Agent)


def test_an_unknown_agent_is_a_problem() -> None:
    assert isinstance(moved_to(AgentStatus.PASSIVE, agent_id="nobody"), Problem)
    assert isinstance(moved_to(AgentStatus.PASSIVE, tenant="other"), Problem)


def test_forgets_streams_that_were_quiet_longest() -> None:
    shares = refusals._Shares()
    for number in range(refusals._REMEMBERED + 10):
        assert shares.take(f"agent:{number}", minute=1)
    assert len(shares.counts) == refusals._REMEMBERED


def test_a_new_minute_brings_a_new_share() -> None:
    shares = refusals._Shares()
    assert all(shares.take("agent:a", minute=1) for _ in range(refusals.RECORDED_PER_MINUTE))
    assert not shares.take("agent:a", minute=1)
    assert shares.take("agent:b", minute=1)
    assert shares.take("agent:a", minute=2)
