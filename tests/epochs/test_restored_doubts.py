"""After a restore nothing runs by itself that was in doubt in the backup, or was with a person."""

from pathlib import Path
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.fixtures import Settings

from escalations.contracts import Action, State
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.states import Direction, Effect, FlowState, IntentState
from runtime.core import transactions
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.maintenance.services import restores, sweeper
from tests.execution.test_doubts_outlive_all import resume
from tests.support import (
    booking_targets,
    decision_rows,
    factories,
    fake_target,
    ledger_tampering,
    restored_backup,
    trading_desk,
)
from tests.support.booking_targets import attempt
from tests.support.fake_target import BUSY, FORWARD, LOSE, REFUSE, Book

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Path:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    return restored_backup.keep_mark(tmp_path, monkeypatch)


def recover(place: Path) -> None:
    """A backup of this moment is restored, and an admin begins the next epoch."""
    restored_backup.restore(place)
    for _ in range(3):
        assert sweeper.sweep().failed == 0
    restored_backup.begin_next()
    assert ledger_tampering.differences() == []


def test_what_a_person_resumed_before_the_backup_is_not_sent_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown="person"))
    with booking_targets.opened(knows_keys=False) as bank:
        desk = trading_desk.open_desk(base_url=bank.base_url)
        bank.lost = 1
        intent_id = desk.accept(window_s=3600)
        assert attempt(intent_id).status == "WITH_PERSON"
        resume(intent_id)
        # In the lost time it ran.
        bank.effects[Attempt.objects.get().target_key] += 1
        recover(place)
        assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
        assert attempt(intent_id).status == "NOT_DUE"
        assert bank.total == 1


def test_what_undoes_a_step_behind_a_call_left_in_doubt_is_not_sent_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened(knows_keys=False) as target:
        intent_id = turned_back(target)
        recover(place)
        assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
        assert fake_target.attempt(intent_id).status == "NOT_DUE"
        assert target.order == ["/reserve", "/pay"]


def turned_back(target: Book) -> UUID:
    """An intent whose second step a person has aborted in doubt, so that the first is to be undone."""
    desk = trading_desk.open_desk(base_url=target.base_url)
    intent_id = desk.accept(window_s=3600)
    assert fake_target.attempt(intent_id).status == "ADVANCED"
    target.faults["/pay"] = [LOSE]
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    asked = Escalation.objects.get(state=State.OPEN)
    assert isinstance(factories.decide(asked, factories.user(), Action.ABORT), deciding.DecisionResult)
    assert Intent.objects.get().direction == Direction.COMPENSATE
    return intent_id


@pytest.mark.parametrize("on_unknown", ["person", "probe", "resend"])
def test_what_a_person_is_asked_about_may_have_run_as_well(
    on_unknown: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = booking_targets.pack(on_unknown=on_unknown, honours_keys=on_unknown == "resend")
    monkeypatch.setattr(trading_desk, "PACK", text)
    with booking_targets.opened(knows_keys=False) as bank:
        desk = trading_desk.open_desk(base_url=bank.base_url)
        bank.refusals = [429] * 4
        intent_id = desk.accept(window_s=3600)
        for _ in range(4):
            status = attempt(intent_id).status
        assert status == "WITH_PERSON"
        before = Escalation.objects.get()
        assert not calls_in_doubt.is_in_doubt(intent=trading_desk.intent(intent_id))
        recover(place)
        before.refresh_from_db()
        asked = Escalation.objects.get(state=State.OPEN)
        assert (before.state, asked.reason) == (State.WITHDRAWN, "IN_DOUBT")
        assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
        olivia = factories.user()
        replaced = factories.decide(asked, olivia, Action.MODIFY, params={"symbol": "ABC", "quantity": 1})
        assert decision_rows.refused(replaced) == (400, "STATEMENT_MISSING")
        assert isinstance(
            factories.decide(asked, olivia, Action.ABORT, effect=Effect.HAPPENED), deciding.DecisionResult
        )
        assert bank.total == 0


@pytest.mark.parametrize(("fault", "direction"), [(BUSY, Direction.FORWARD), (REFUSE, Direction.COMPENSATE)])
def test_what_a_person_is_asked_about_in_a_walk_may_have_run_as_well(
    fault: str, direction: Direction, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        target.faults["/pay"], target.faults["/reserve/undo"] = [fault], [REFUSE]
        intent_id = desk.accept(window_s=3600)
        assert fake_target.walk(intent_id)[-1] == "WITH_PERSON"
        recover(place)
        assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
        last = Attempt.objects.latest("number")
        assert (last.direction, last.state, last.error_category) == (direction, "UNKNOWN", "LEASE_ENDED")
        assert target.order == [FORWARD[0]]


def test_each_is_put_in_doubt_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = booking_targets.pack(on_unknown="resend", honours_keys=True)
    monkeypatch.setattr(trading_desk, "PACK", text)
    intent_id = trading_desk.open_desk().accept(window_s=3600)
    restored_backup.restore(place)
    assert not transactions.retry_on_conflict(lambda: restores.put_in_doubt(intent_id)), (
        "nobody has called it a restore"
    )
    sweeper.sweep()
    assert not transactions.retry_on_conflict(lambda: restores.put_in_doubt(intent_id)), (
        "two sweepers came upon it"
    )
    assert Attempt.objects.count() == 1
    assert trading_desk.states(intent_id)[0] is IntentState.PENDING


def test_each_later_step_is_asked_about_as_well(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened(knows_keys=False) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept(window_s=3600)
        recover(place)
        olivia = factories.user()
        for step in ("reserve", "pay"):
            asked = Escalation.objects.get(state=State.OPEN)
            done = factories.decide(asked, olivia, Action.MARK_DONE, receipt={"found": step})
            assert isinstance(done, deciding.DecisionResult)
            assert fake_target.attempt(intent_id).status == "BLOCKED"
            assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
            assert target.order == []
        last = Escalation.objects.get(state=State.OPEN)
        assert isinstance(factories.decide(last, olivia, Action.RESUME), deciding.DecisionResult)
        assert fake_target.attempt(intent_id).status == "SUCCEEDED"
        assert target.order == ["/ship"]
        assert ledger_tampering.differences() == []


def test_a_target_that_can_be_asked_is_asked_about_each_step(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown="probe"))
    with fake_target.opened(knows_keys=False) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept(window_s=3600)
        point = transaction.savepoint()
        assert fake_target.walk(intent_id)[-1] == "SUCCEEDED"
        transaction.savepoint_rollback(point)
        recover(place)
        assert "SUCCEEDED" in fake_target.walk(intent_id)
        assert target.order == list(FORWARD)
        target.check()
