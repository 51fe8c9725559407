"""What else ends flows leaves a walk alone that has begun: agents, parents, silence, budgets."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState
from runtime.core import clock, transactions
from runtime.execution.services import attempting, claiming
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from tests.support import fake_target, trading_desk
from tests.support.fake_target import HANG_UP, REFUSE, Book, attempt

pytestmark = pytest.mark.django_db
S = FlowState


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as opened:
        yield opened


def begun(book: Book, desk: trading_desk.Desk, state: FlowState, *, parent: UUID | None = None) -> UUID:
    """A walk whose flow is in `state`."""
    intent_id = desk.accept(parent=parent)
    if state is S.ACCEPTED:
        return intent_id
    attempt(intent_id)
    book.faults["/pay"] = [HANG_UP if state is S.ESCALATED else REFUSE]
    if state is not S.EXECUTING:
        attempt(intent_id)
    if state is S.COMPENSATING:
        transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker"))
    assert trading_desk.flow_of(intent_id).state == state
    return intent_id


UNDER_WAY = [S.EXECUTING, S.PARTIAL_SUCCESS_DIRTY, S.COMPENSATING, S.ESCALATED]


@pytest.mark.parametrize("state", UNDER_WAY)
def test_an_agent_cannot_withdraw_a_walk_that_has_begun(state: FlowState, book: Book) -> None:
    desk = trading_desk.open_desk(base_url=book.base_url)
    intent_id = begun(book, desk, state)
    refused = flows.cancel(
        agent=desk.agent, dfid=trading_desk.flow_of(intent_id).dfid, reason="changed my mind"
    )
    assert isinstance(refused, Problem)
    assert refused.code == "ALREADY_CLAIMED"
    assert trading_desk.flow_of(intent_id).state == state


def test_an_agent_can_withdraw_a_walk_that_has_not(book: Book) -> None:
    desk = trading_desk.open_desk(base_url=book.base_url)
    intent_id = begun(book, desk, S.ACCEPTED)
    flows.cancel(agent=desk.agent, dfid=trading_desk.flow_of(intent_id).dfid, reason="changed my mind")
    assert attempt(intent_id) == attempting.AttemptResult(
        status=attempting.AttemptStatus.ENDED, called=False, detail="CANCELLED"
    )


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_parent_that_ends_leaves_a_walk_that_has_begun(state: FlowState, book: Book) -> None:
    desk = trading_desk.open_desk(base_url=book.base_url)
    parent = desk.open()
    intent_id = begun(book, desk, state, parent=parent)
    flows.close(agent=desk.agent, dfid=parent, reason="done")
    assert Flow.objects.get(pk=parent).state == S.CLOSED
    assert trading_desk.flow_of(intent_id).state == state


@pytest.mark.parametrize("state", UNDER_WAY)
def test_silence_ends_no_walk(state: FlowState, book: Book, settings: Settings) -> None:
    settings.DIR_FLOW_TTL_S = 60
    intent_id = begun(book, trading_desk.open_desk(base_url=book.base_url), state)
    Flow.objects.update(updated_at=clock.now() - timedelta(days=1))
    assert sweeper.sweep().idle_flows == 0
    assert trading_desk.flow_of(intent_id).state == state
