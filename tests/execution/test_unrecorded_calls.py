"""Calls that an earlier version took for refused, which nobody knows: people or targets are asked first."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from escalations.contracts import Action, State
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.receipt import FailureClass
from runtime.contracts.states import Effect, FlowState, IntentState
from runtime.core import clock
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.kernel import answers
from runtime.maintenance.services import sweeper
from tests.support import booking_targets, decision_rows, factories, ledger_tampering, trading_desk
from tests.support.booking_targets import Bank, attempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def bank(settings: Settings) -> Iterator[Bank]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with booking_targets.opened(knows_keys=False) as bank:
        yield bank
    assert bank.total <= 1
    assert ledger_tampering.differences() == []


def open_desk(bank: Bank, monkeypatch: pytest.MonkeyPatch, on_unknown: str) -> trading_desk.Desk:
    text = booking_targets.pack(on_unknown=on_unknown, honours_keys=on_unknown == "resend")
    monkeypatch.setattr(trading_desk, "PACK", text)
    return trading_desk.open_desk(base_url=bank.base_url)


def called_before(desk: trading_desk.Desk, bank: Bank, *answered: str) -> UUID:
    """An intent whose calls an earlier version made: it took every such answer for a refusal."""
    intent_id = desk.accept(window_s=3600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "class_of", lambda status, refuses=(): FailureClass.TRANSIENT)
        for fault in answered:
            bank.faults = [fault]
            attempt(intent_id)
    Attempt.objects.update(sent_at=None)
    return intent_id


@pytest.mark.parametrize("status", ["500", "502", "503", "303", "408", "499"])
def test_a_person_is_asked_before_it_is_sent_again(
    status: str, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = called_before(open_desk(bank, monkeypatch, "person"), bank, status)
    assert Attempt.objects.get().state == "FAILED"
    window = Intent.objects.filter(pk=intent_id)
    valid_until = window.get().valid_until
    window.update(valid_until=clock.now() - timedelta(seconds=1))
    result = attempt(intent_id)
    window.update(valid_until=valid_until)
    assert (result.status, result.called, result.detail) == ("BLOCKED", False, "IN_DOUBT")
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert calls_in_doubt.is_in_doubt(intent=trading_desk.intent(intent_id))
    assert bank.total == 1


def test_the_target_is_asked_where_it_can_be(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = called_before(open_desk(bank, monkeypatch, "probe"), bank, "500")
    assert attempt(intent_id).status == "BLOCKED"
    assert attempt(intent_id).status == "SUCCEEDED"
    assert (bank.asked, bank.total) == (1, 1)


def test_a_target_that_knows_its_keys_is_sent_it_again(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.knows_keys = True
    intent_id = called_before(open_desk(bank, monkeypatch, "resend"), bank, "500")
    assert attempt(intent_id).status == "BLOCKED"
    assert attempt(intent_id).status == "SUCCEEDED"
    assert (bank.calls, bank.total) == (2, 1)


@pytest.mark.parametrize("on_unknown", ["person", "probe"])
def test_a_person_who_was_asked_about_refusals_is_asked_about_a_doubt(
    on_unknown: str, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.knows_keys = True
    intent_id = called_before(open_desk(bank, monkeypatch, on_unknown), bank, *["500"] * 4)
    before = Escalation.objects.get()
    assert (trading_desk.states(intent_id)[0], before.reason) == (IntentState.WITH_PERSON, "REPEATED_FAILURE")
    for _ in range(2):
        assert sweeper.sweep().failed == 0
    before.refresh_from_db()
    asked = Escalation.objects.get(state=State.OPEN)
    assert (before.state, asked.reason) == (State.WITHDRAWN, "IN_DOUBT")
    assert Attempt.objects.count() == 5
    olivia = factories.user()
    other = factories.decide(asked, olivia, Action.MODIFY, params={"symbol": "ABC", "quantity": 1})
    assert decision_rows.refused(other) == (400, "STATEMENT_MISSING")
    done = factories.decide(asked, olivia, Action.ABORT, effect=Effect.HAPPENED)
    assert isinstance(done, deciding.DecisionResult)
    assert Attempt.objects.filter(effect="HAPPENED").count() == 1


def test_a_person_who_resumed_it_has_answered(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = called_before(open_desk(bank, monkeypatch, "person"), bank, "500")
    bank.effects.clear()
    assert attempt(intent_id).status == "BLOCKED"
    asked = Escalation.objects.get(state=State.OPEN)
    assert isinstance(factories.decide(asked, factories.user(), Action.RESUME), deciding.DecisionResult)
    assert attempt(intent_id).status == "SUCCEEDED"


@pytest.mark.parametrize("status", [425, 429])
def test_a_refusal_is_one(status: int, bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk(bank, monkeypatch, "person")
    bank.refusals = [status]
    intent_id = desk.accept(window_s=3600)
    assert attempt(intent_id).status == "RETRY_LATER"
    Attempt.objects.update(sent_at=None)
    assert attempt(intent_id).status == "SUCCEEDED"


def test_what_a_target_declares_to_refuse_is_refused(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown="person", refuses="[503]"))
    desk = trading_desk.open_desk(base_url=bank.base_url)
    bank.refusals = [503]
    intent_id = desk.accept(window_s=3600)
    assert attempt(intent_id).status == "RETRY_LATER"
    assert attempt(intent_id).status == "SUCCEEDED"
