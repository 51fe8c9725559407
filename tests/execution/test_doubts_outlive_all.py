"""While a call is in doubt its intent and its flow come to no end: whatever happens, a person is asked."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult
from runtime.contracts.states import AgentStatus, FlowState, IntentState
from runtime.core import clock, ports
from runtime.execution.services import calling, claiming, recovery
from runtime.flows.models import Flow, Intent
from runtime.flows.services import flows, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.resources.models import Reservation
from tests.support import booking_targets, trading_desk
from tests.support.booking_targets import Bank, attempt

pytestmark = pytest.mark.django_db
CLAIMS = "    claims: [{resource: units, amount: params.quantity}]\n    effect:"
UNITS = "resources: [{name: units, capacity: 10, unit: units}]\nfacts:"


@pytest.fixture
def bank(settings: Settings) -> Iterator[Bank]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with booking_targets.opened(knows_keys=True) as bank:
        yield bank
    assert bank.total == 1
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def desk(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    text = booking_targets.pack(on_unknown="resend", honours_keys=True)
    text = text.replace("    effect:", CLAIMS).replace("facts:", UNITS, 1)
    monkeypatch.setattr(trading_desk, "PACK", text)
    return trading_desk.open_desk(base_url=bank.base_url)


@pytest.fixture
def doubtful(bank: Bank, desk: trading_desk.Desk) -> UUID:
    """An intent whose only call was booked and answered with 502, and that waits to be sent again."""
    bank.faults = ["502"]
    intent_id = desk.accept()
    assert attempt(intent_id).status == "RETRY_LATER"
    return intent_id


def window_ends(intent_id: UUID) -> None:
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))


def fact_moves(_: UUID) -> None:
    trading_desk.write_fact("price.ABC", 999)


def constraint_breaks(_: UUID) -> None:
    trading_desk.write_fact("market.state", "CLOSED")


def agent_retires(_: UUID) -> None:
    Agent.objects.update(status=AgentStatus.RETIRED)


def requests_unreadable(intent_id: UUID) -> None:
    Intent.objects.filter(pk=intent_id).update(requests=b"{}")


@pytest.mark.parametrize(
    "happens", [window_ends, fact_moves, constraint_breaks, agent_retires, requests_unreadable]
)
def test_what_ends_an_intent_calls_a_person_instead(
    bank: Bank, doubtful: UUID, happens: Callable[[UUID], None]
) -> None:
    happens(doubtful)
    attempt(doubtful)
    assert bank.calls == 1
    assert Intent.objects.get(pk=doubtful).state in {IntentState.IN_DOUBT, IntentState.WITH_PERSON}
    assert trading_desk.flow_of(doubtful).state == FlowState.ESCALATED
    assert Escalation.objects.get().deadline_at is None
    assert Reservation.objects.get().state == "PINNED"


def test_an_agent_cannot_withdraw_it(desk: trading_desk.Desk, doubtful: UUID) -> None:
    answer = flows.cancel(agent=desk.agent, dfid=trading_desk.flow_of(doubtful).pk, reason="never mind")
    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (409, "ALREADY_CLAIMED")
    assert Reservation.objects.get().state == "PINNED"


def test_it_outlives_its_parent(bank: Bank, desk: trading_desk.Desk) -> None:
    parent = desk.open()
    bank.faults = ["502"]
    intent_id = desk.accept(parent=parent)
    attempt(intent_id)
    flows.cancel(agent=desk.agent, dfid=parent, reason="never mind")
    assert Flow.objects.get(pk=parent).state == FlowState.ABORTED
    assert Intent.objects.get(pk=intent_id).state == IntentState.PENDING
    assert Reservation.objects.get().state == "PINNED"
    assert attempt(intent_id).status == "SUCCEEDED"


def test_no_silence_and_no_lease_ends_it(doubtful: UUID, settings: Settings) -> None:
    settings.DIR_FLOW_TTL_S = settings.DIR_RESERVATION_S = 0
    Intent.objects.filter(pk=doubtful).update(next_at=clock.now() + timedelta(hours=1))
    for _ in range(2):
        sweeper.sweep()
    assert trading_desk.states(doubtful) == (IntentState.PENDING, FlowState.EXECUTING)
    assert Reservation.objects.get().state == "PINNED"
    Intent.objects.filter(pk=doubtful).update(next_at=clock.now())


def test_the_house_itself_cannot_end_it(doubtful: UUID) -> None:
    flow = locks.lock_flow(dfid=trading_desk.flow_of(doubtful).pk)
    assert flow is not None
    journal = Journal(flow=flow, actor="system", at=clock.now())
    journal.transition(FlowState.ABORTED, reason=Reason.EXPIRED)
    with pytest.raises(ValueError, match="only be ended by a person"), transaction.atomic():
        journal.write()


def test_a_retired_agents_call_is_still_a_persons_to_settle(doubtful: UUID) -> None:
    answer = agents.set_status(
        tenant=trading_desk.TENANT,
        agent_id=trading_desk.AGENT,
        status=AgentStatus.SUSPENDED,
        reason="looked at",
        actor="user:1",
    )
    assert not isinstance(answer, Problem)
    assert attempt(doubtful).status == "HELD"
    window_ends(doubtful)
    assert attempt(doubtful).detail == "EXPIRED"
    assert trading_desk.states(doubtful) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


@pytest.mark.parametrize("then", ["it is due again", "its window ends"])
def test_a_late_receipt_keeps_a_resumed_call_from_going_out(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The worker hangs, a person says that it shall be tried again, and then the first answer comes."""
    monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown="person"))
    intent_id = trading_desk.open_desk(base_url=bank.base_url).accept()
    real = calling.call

    def late(claim: claiming.Claimed, *, lease_left_s: float) -> CallResult:
        result = real(claim, lease_left_s=lease_left_s)
        assert sweeper.expire_all_leases() == 1
        resume(intent_id)
        return result

    monkeypatch.setattr(calling, "call", late)
    assert attempt(intent_id).status == "REPORTED_LATE"
    assert Intent.objects.get(pk=intent_id).state == IntentState.PENDING
    if then == "its window ends":
        window_ends(intent_id)
    assert not attempt(intent_id).called
    assert bank.calls == 1
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


def resume(intent_id: UUID) -> None:
    """A person's RESUME."""
    found = locks.lock_intent(intent_id=intent_id)
    assert found is not None
    flow, intent = found
    journal = Journal(flow=flow, actor="user:7", at=clock.now())
    journal.add(*ports.close_escalations(flow=flow, at=journal.at))
    recovery.resume(journal=journal, intent=intent, at=journal.at)
    journal.write()
