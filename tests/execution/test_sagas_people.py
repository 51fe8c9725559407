"""What people decide about a walk that stopped half way: forward, and on the way back."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.fixtures import Settings

from audit import canonical
from audit.verification.verify import Whole, verify_database
from escalations.evidence_contracts import OperationalEvidence
from escalations.models import Escalation
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, Effect, FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import recovery
from runtime.flows.models import Intent, Outcome, StepReceipt
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent
from tests.support import factories, fake_target, resources_pack, trading_desk
from tests.support.fake_target import BUSY, FAIL, HANG_UP, LOSE, REFUSE, Book, attempt, walk

pytestmark = pytest.mark.django_db
PERSON = "user:1"


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened(knows_keys=False) as opened:
        yield opened
        opened.check()
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def desk(book: Book) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=book.base_url)


def decide(intent_id: UUID, decision: Callable[..., None], **named: Any) -> None:
    """What the escalation's decision does around a recovery: lock, collect, write."""
    with transaction.atomic():
        found = locks.lock_intent(intent_id=intent_id)
        assert found is not None
        flow, intent = found
        journal = Journal(flow=flow, actor=PERSON, at=clock.now())
        decision(journal=journal, intent=intent, at=journal.at, **named)
        journal.entries.insert(0, trading_desk.decided(flow, decision))
        flow.escalations.filter(state="OPEN").update(state="RESOLVED", resolved_at=journal.at)
        journal.write()


def shown(intent_id: UUID) -> OperationalEvidence:
    """The current evidence."""
    row = Escalation.objects.get(flow=trading_desk.flow_of(intent_id), state="OPEN")
    found = factories.read_shown(row)
    assert isinstance(found, OperationalEvidence)
    return found


def agent_status() -> str:
    return Agent.objects.get().status


def stuck_forward(book: Book, desk: trading_desk.Desk, fault: str = LOSE) -> UUID:
    """Reserved, and then a payment whose answer was lost."""
    book.faults["/pay"] = [fault]
    intent_id = desk.accept()
    assert walk(intent_id) == ["ADVANCED", "WITH_PERSON"]
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert agent_status() == AgentStatus.ACTIVE
    book.mend()
    return intent_id


def stuck_backward(book: Book, desk: trading_desk.Desk, fault: str = REFUSE) -> UUID:
    """Reserved and paid, not shipped, and the payment could not be taken back."""
    book.faults["/ship"] = [REFUSE]
    book.faults["/pay/undo"] = [fault]
    intent_id = desk.accept()
    assert walk(intent_id)[:3] == ["ADVANCED", "ADVANCED", "TURNED_BACK"]
    assert trading_desk.states(intent_id)[1] == FlowState.ESCALATED
    assert agent_status() == AgentStatus.LOCKED
    book.mend()
    return intent_id


def test_a_person_who_finds_a_forward_step_done_lets_the_rest_follow(
    book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_forward(book, desk)
    found = shown(intent_id)
    assert found.reason == "IN_DOUBT"
    assert [(step.step, step.state, step.is_current) for step in found.operational.steps] == [
        ("reserve", "DONE", False),
        ("pay", "RUNNING", True),
        ("ship", "WAITING", False),
    ]
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))
    decide(intent_id, recovery.mark_done, receipt={"paid": True}, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.EXECUTING)
    assert walk(intent_id) == ["SUCCEEDED"]
    assert book.order == ["/reserve", "/pay", "/ship"]
    assert canonical.decode(bytes(Outcome.objects.get(pk=intent_id).receipt or b""))["pay"] == {"paid": True}
    assert StepReceipt.objects.get(step="pay").recorded_by == PERSON


def test_a_person_who_finds_the_last_step_done_closes_the_flow(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/ship"] = [LOSE]
    intent_id = desk.accept()
    assert walk(intent_id) == ["ADVANCED", "ADVANCED", "WITH_PERSON"]
    decide(intent_id, recovery.mark_done, receipt={}, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert Outcome.objects.get(pk=intent_id).recorded_by == PERSON


def test_resume_of_a_forward_step_sends_its_key_again(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = stuck_forward(book, desk, HANG_UP)
    decide(intent_id, recovery.resume)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.EXECUTING)
    assert walk(intent_id) == ["ADVANCED", "SUCCEEDED"]
    assert all(len(found) == 1 for found in fake_target.keys(intent_id).values())


def test_a_doubt_that_was_settled_does_not_follow_the_walk(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = stuck_forward(book, desk, HANG_UP)
    decide(intent_id, recovery.resume)
    book.faults["/ship"] = [REFUSE]
    assert walk(intent_id) == ["ADVANCED", "TURNED_BACK", "ADVANCED", "COMPENSATED"]


def test_abort_of_a_forward_step_undoes_what_was_done(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = stuck_forward(book, desk, HANG_UP)
    decide(intent_id, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.PARTIAL_SUCCESS_DIRTY)
    assert agent_status() == AgentStatus.LOCKED
    assert walk(intent_id) == ["COMPENSATED"]
    assert book.order == ["/reserve", "/reserve/undo"]
    assert trading_desk.flow_of(intent_id).reason == "ABORTED_BY_PERSON"
    assert agent_status() == AgentStatus.ACTIVE


def test_abort_before_anything_was_done_ends_the_flow(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [HANG_UP]
    intent_id = desk.accept()
    assert walk(intent_id) == ["WITH_PERSON"]
    decide(intent_id, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert Outcome.objects.get(pk=intent_id).status == "FAILED"


def test_resume_before_anything_was_done_starts_the_walk(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [HANG_UP]
    intent_id = desk.accept()
    walk(intent_id)
    book.mend()
    decide(intent_id, recovery.resume)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.ACCEPTED)
    assert walk(intent_id)[-1] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("fault", "reason", "tries"),
    [
        (REFUSE, "COMPENSATION_FAILED", 1),
        (BUSY, "COMPENSATION_FAILED", 4),
        (HANG_UP, "IN_DOUBT", 1),
        (FAIL, "IN_DOUBT", 1),
    ],
)
def test_a_compensation_that_fails_asks_a_person_and_says_what_stands(
    fault: str, reason: str, tries: int, book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_backward(book, desk, fault)
    found = shown(intent_id)
    tried = found.operational
    assert (found.reason, tried.direction, tried.cause) == (reason, "COMPENSATE", "TERMINAL_FAILURE")
    assert [(step.step, step.state) for step in tried.steps] == [
        ("reserve", "DONE"),
        ("pay", "UNDOING"),
        ("ship", "NOT_DONE"),
    ]
    assert [item.direction for item in tried.attempts] == ["FORWARD"] * 3 + ["COMPENSATE"] * tries
    asked = trading_desk.told(intent_id)[-1]
    assert asked[0] == "ESCALATION_REQUIRED"
    assert (asked[1]["details"]["step"], asked[1]["details"]["direction"]) == ("pay", "COMPENSATE")


@pytest.mark.parametrize("fault", [REFUSE, HANG_UP])
def test_resume_of_a_compensation_goes_on_with_the_same_key(
    fault: str, book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_backward(book, desk, fault)
    decide(intent_id, recovery.resume)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.COMPENSATING)
    assert walk(intent_id) == ["ADVANCED", "COMPENSATED"]
    assert book.order == ["/reserve", "/pay", "/pay/undo", "/reserve/undo"]
    assert len(fake_target.keys(intent_id)["pay COMPENSATE"]) == 1
    assert agent_status() == AgentStatus.ACTIVE


def test_a_person_who_finds_a_compensation_done_lets_the_next_follow(
    book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_backward(book, desk, LOSE)
    decide(intent_id, recovery.mark_done, receipt={"refunded": True}, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.COMPENSATING)
    assert walk(intent_id) == ["COMPENSATED"]
    assert book.order == ["/reserve", "/pay", "/pay/undo", "/reserve/undo"]


def test_a_person_who_finds_the_last_compensation_done_unlocks_the_agent(
    book: Book, desk: trading_desk.Desk
) -> None:
    book.faults["/pay"], book.faults["/reserve/undo"] = [REFUSE], [LOSE]
    intent_id = desk.accept()
    assert walk(intent_id) == ["ADVANCED", "TURNED_BACK", "WITH_PERSON"]
    decide(intent_id, recovery.mark_done, receipt={}, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    outcome = Outcome.objects.get(pk=intent_id)
    assert (outcome.status, outcome.recorded_by) == ("COMPENSATED", PERSON)
    assert agent_status() == AgentStatus.ACTIVE


@pytest.mark.parametrize("fault", [REFUSE, HANG_UP])
def test_a_person_may_leave_what_stands_and_unlock_the_agent(
    fault: str, book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_backward(book, desk, fault)
    decide(intent_id, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON)
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    outcome = Outcome.objects.get(pk=intent_id)
    assert (outcome.status, outcome.error_category) == ("FAILED", "COMPENSATION_FAILED")
    assert agent_status() == AgentStatus.ACTIVE
    assert attempt(intent_id).outcome == "FAILED"


def test_what_stands_keeps_what_it_took(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_pack, "_PLAIN", fake_target.pack())
    monkeypatch.setattr(trading_desk, "PACK", resources_pack.pack())
    intent_id = stuck_backward(book, trading_desk.open_desk(base_url=book.base_url))
    decide(intent_id, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON)
    assert trading_desk.states(intent_id)[1] == FlowState.ABORTED
    assert (resources_pack.states(intent_id), resources_pack.used()) == ({"COMMITTED"}, (0, 60))


def test_what_was_compensated_in_doubt_and_refused_stays_in_doubt(
    book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = stuck_backward(book, desk, HANG_UP)
    decide(intent_id, recovery.resume)
    book.faults["/pay/undo"] = [REFUSE]
    assert walk(intent_id) == ["WITH_PERSON"]
    assert shown(intent_id).reason == "IN_DOUBT"


@pytest.fixture
def stocked(book: Book, monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    """A desk whose walk of three steps holds sixty units."""
    monkeypatch.setattr(resources_pack, "_PLAIN", fake_target.pack())
    monkeypatch.setattr(trading_desk, "PACK", resources_pack.pack())
    return trading_desk.open_desk(base_url=book.base_url)


def told_effect(intent_id: UUID) -> object:
    """What the agent reads of the effect in the outcome."""
    return dict(trading_desk.told(intent_id))["EXECUTION_OUTCOME"]["effect"]


def abort_saying(intent_id: UUID, effect: Effect | None) -> None:
    decide(intent_id, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON, effect=effect)


def test_a_step_that_a_person_says_was_done_is_undone_with_those_before_it(
    book: Book, stocked: trading_desk.Desk
) -> None:
    intent_id = stuck_forward(book, stocked, LOSE)
    abort_saying(intent_id, Effect.HAPPENED)
    assert walk(intent_id) == ["ADVANCED", "COMPENSATED"]
    assert book.order == ["/reserve", "/pay", "/pay/undo", "/reserve/undo"]
    assert (resources_pack.states(intent_id), resources_pack.used()) == ({"RELEASED"}, (0, 0))
    assert told_effect(intent_id) == Effect.NOT_HAPPENED
    assert isinstance(verify_database(), Whole)


@pytest.mark.parametrize(
    ("effect", "held", "told"),
    [
        (None, {"COMMITTED"}, Effect.UNKNOWN),
        (Effect.UNKNOWN, {"COMMITTED"}, Effect.UNKNOWN),
        (Effect.NOT_HAPPENED, {"RELEASED"}, Effect.NOT_HAPPENED),
    ],
)
def test_a_step_left_in_doubt_uses_up_what_the_walk_held_though_the_rest_is_undone(
    effect: Effect | None, held: set[str], told: Effect, book: Book, stocked: trading_desk.Desk
) -> None:
    intent_id = stuck_forward(book, stocked, LOSE if effect is not Effect.NOT_HAPPENED else HANG_UP)
    abort_saying(intent_id, effect)
    assert walk(intent_id) == ["COMPENSATED"]
    assert resources_pack.states(intent_id) == held
    assert told_effect(intent_id) == told
    resources_pack.check()


def test_the_last_step_has_nothing_that_undoes_it_and_stands(book: Book, stocked: trading_desk.Desk) -> None:
    book.faults["/ship"] = [LOSE]
    intent_id = stocked.accept()
    walk(intent_id)
    abort_saying(intent_id, Effect.HAPPENED)
    assert walk(intent_id) == ["ADVANCED", "COMPENSATED"]
    assert book.order == ["/reserve", "/pay", "/ship", "/pay/undo", "/reserve/undo"]
    assert resources_pack.states(intent_id) == {"COMMITTED"}
    assert told_effect(intent_id) == Effect.HAPPENED


@pytest.mark.parametrize(
    ("effect", "held", "told"),
    [
        (Effect.UNKNOWN, {"COMMITTED"}, Effect.UNKNOWN),
        (Effect.NOT_HAPPENED, {"COMMITTED"}, Effect.HAPPENED),
        (Effect.HAPPENED, {"RELEASED"}, Effect.NOT_HAPPENED),
    ],
)
def test_what_undoes_frees_what_was_held_only_where_it_is_known_to_have_happened(
    effect: Effect, held: set[str], told: Effect, book: Book, stocked: trading_desk.Desk
) -> None:
    book.faults["/pay"], book.faults["/reserve/undo"] = [REFUSE], [LOSE]
    intent_id = stocked.accept()
    assert walk(intent_id) == ["ADVANCED", "TURNED_BACK", "WITH_PERSON"]
    abort_saying(intent_id, effect)
    assert trading_desk.states(intent_id)[1] == FlowState.ABORTED
    assert resources_pack.states(intent_id) == held
    assert told_effect(intent_id) == told
    resources_pack.check()
