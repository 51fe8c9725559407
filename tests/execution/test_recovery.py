"""What a person decides about an intent in doubt: RESUME, MARK_DONE, ABORT."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from audit.models import LedgerEntry, Payload
from audit.verification.verify import Whole, verify_database
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting, calling, recovery
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from tests.support import trading_desk

pytestmark = pytest.mark.django_db
PERSON = "user:1"


def failure(failure_class: FailureClass) -> Failure:
    return Failure(category=FailureCategory.TIMED_OUT, failure_class=failure_class, detail="it failed")


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> UUID:
    """An intent whose first call had no answer."""
    answer_with(monkeypatch, failure(FailureClass.UNKNOWN))
    intent_id = trading_desk.open_desk().accept()
    assert attempting.attempt(intent_id, owner=trading_desk.OWNER).detail == "IN_DOUBT"
    return intent_id


def answer_with(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
    monkeypatch.setattr(calling, "call", lambda claim, **_: result)


def decide(intent_id: UUID, decision: Callable[..., None], **named: Any) -> None:
    """What the escalation's decision does around a recovery: lock, collect, write."""
    with transaction.atomic():
        found = locks.lock_intent(intent_id=intent_id)
        assert found is not None
        flow, intent = found
        journal = Journal(flow=flow, actor=PERSON, at=clock.now())
        decision(journal=journal, intent=intent, at=journal.at, **named)
        journal.entries.insert(0, trading_desk.decided(flow, decision))
        journal.write()


def test_resume_sends_the_same_key_again(doubtful: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    Intent.objects.filter(pk=doubtful).update(valid_until=clock.now() - timedelta(seconds=1), failures=2)
    decide(doubtful, recovery.resume)
    row = trading_desk.intent(doubtful)
    assert (row.state, row.failures, row.flow.state) == (IntentState.PENDING, 0, FlowState.ACCEPTED)
    assert timedelta(seconds=50) < row.valid_until - clock.now() <= timedelta(seconds=60)
    assert "intent:resumed" in trading_desk.kinds(doubtful)

    answer_with(monkeypatch, Receipt(status_code=200, body=b'{"order_id":"o1"}'))
    assert attempting.attempt(doubtful, owner=trading_desk.OWNER).status is AttemptStatus.SUCCEEDED
    assert len(set(Attempt.objects.values_list("target_key", flat=True))) == 1
    assert trading_desk.states(doubtful) == (IntentState.DONE, FlowState.CLOSED)
    assert isinstance(verify_database(), Whole)


def test_resume_never_shortens_a_window(doubtful: UUID) -> None:
    far = clock.now() + timedelta(hours=1)
    Intent.objects.filter(pk=doubtful).update(valid_until=far)
    decide(doubtful, recovery.resume)
    assert trading_desk.intent(doubtful).valid_until == far


@pytest.mark.parametrize("moved", ["a fact", "the clock", "the target"])
def test_what_stops_a_resumed_call_does_not_settle_the_doubt(
    moved: str, doubtful: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(doubtful, recovery.resume)
    if moved == "a fact":
        trading_desk.write_fact("market.state", "CLOSED")
    elif moved == "the clock":
        Intent.objects.filter(pk=doubtful).update(valid_until=clock.now())
    else:
        answer_with(monkeypatch, failure(FailureClass.TERMINAL))
    withdraw_escalation(doubtful)
    attempting.attempt(doubtful, owner=trading_desk.OWNER)
    assert trading_desk.states(doubtful) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert not Outcome.objects.exists()


def withdraw_escalation(intent_id: UUID) -> None:
    """The decision closes its escalation in the same transaction; here it is done beside it."""
    trading_desk.flow_of(intent_id).escalations.update(state="RESOLVED", resolved_at=clock.now())


def test_mark_done_stores_what_the_person_found(doubtful: UUID) -> None:
    decide(doubtful, recovery.mark_done, receipt={"order_id": "o1", "price": 100.0}, actor=PERSON)
    assert trading_desk.states(doubtful) == (IntentState.DONE, FlowState.CLOSED)
    outcome = Outcome.objects.get(pk=doubtful)
    assert (outcome.status, outcome.recorded_by) == ("SUCCEEDED", PERSON)
    assert bytes(outcome.receipt or b"") == b'{"order_id":"o1","price":100}'
    entry = LedgerEntry.objects.get(kind="outcome:recorded")
    assert entry.actor == PERSON
    assert Payload.objects.filter(commitment=entry.payload["receipt_commitment"]).exists()
    assert [name for name, _ in trading_desk.told(doubtful)[-2:]] == ["EXECUTION_OUTCOME", "FLOW_CLOSED"]


def test_giving_up_ends_the_flow_and_says_who_did(doubtful: UUID) -> None:
    decide(doubtful, recovery.give_up, reason=Reason.ABORTED_BY_PERSON, actor=PERSON)
    assert trading_desk.states(doubtful) == (IntentState.FAILED, FlowState.ABORTED)
    outcome = Outcome.objects.get(pk=doubtful)
    assert (outcome.status, outcome.error_category, outcome.recorded_by) == ("FAILED", "IN_DOUBT", PERSON)
    assert trading_desk.told(doubtful)[-1] == ("FLOW_ABORTED", {"reason": "ABORTED_BY_PERSON"})


def test_an_intent_that_waits_is_not_a_persons_to_decide() -> None:
    waiting = trading_desk.open_desk().accept()
    with pytest.raises(ValueError, match="not with a person"):
        decide(waiting, recovery.resume)
