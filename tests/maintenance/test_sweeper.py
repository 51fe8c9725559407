"""The sweeper mends what a crash, a lost bell or silence left behind."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import AttemptState, FlowState, IntentState
from runtime.core import clock, ports, transactions
from runtime.execution.services import claiming
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import due_intents
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from runtime.maintenance.services.sweeper import SweepResult
from tests.support import trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Ids that the sweeper rings for."""
    ids: list[UUID] = []
    monkeypatch.setattr(ports, "ring", ids.extend)
    return ids


def claim(intent_id: UUID) -> None:
    """What a worker leaves behind that dies in the middle of its call."""
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
    assert isinstance(claimed, claiming.Claimed), claimed


def end_lease(intent_id: UUID) -> None:
    Intent.objects.filter(pk=intent_id).update(lease_until=clock.now() - timedelta(seconds=1))


def test_nothing_to_do_does_nothing(rung: list[UUID]) -> None:
    assert sweeper.sweep() == SweepResult()


def test_an_attempt_whose_lease_ended_goes_to_a_person(rung: list[UUID]) -> None:
    intent_id = trading_desk.open_desk().accept()
    claim(intent_id)
    assert sweeper.sweep().orphans == 0
    end_lease(intent_id)
    assert sweeper.sweep() == SweepResult(orphans=1)
    assert sweeper.sweep() == SweepResult()
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.error_category) == (AttemptState.UNKNOWN, "LEASE_ENDED")
    assert Escalation.objects.get().reason == "IN_DOUBT"
    assert trading_desk.kinds(intent_id, after="attempt:started") == [
        "attempt:finished",
        "intent:in_doubt",
        "flow:moved",
        "escalation:opened",
        "record:emitted",
    ]
    assert isinstance(verify_database(), Whole)


def test_a_start_rescues_every_claim_whatever_its_lease() -> None:
    desk = trading_desk.open_desk()
    claimed = [desk.accept() for _ in range(3)]
    waiting = desk.accept()
    for intent_id in claimed:
        claim(intent_id)
    assert sweeper.expire_all_leases() == 3
    assert sweeper.expire_all_leases() == 0
    assert {trading_desk.states(intent_id)[0] for intent_id in claimed} == {IntentState.IN_DOUBT}
    assert trading_desk.states(waiting) == (IntentState.PENDING, FlowState.ACCEPTED)


def test_a_row_that_cannot_be_mended_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = trading_desk.open_desk()
    poisoned, sound = desk.accept(), desk.accept()
    for intent_id in (poisoned, sound):
        claim(intent_id)
        end_lease(intent_id)
    opened = ports.open_escalation

    def open_escalation(*, intent: Intent, **named: Any) -> Any:
        if intent.pk == poisoned:
            raise RuntimeError("poison")
        return opened(intent=intent, **named)

    monkeypatch.setattr(ports, "open_escalation", open_escalation)
    swept = sweeper.sweep()
    assert (swept.orphans, swept.failed) == (1, 1)
    assert trading_desk.states(poisoned) == (IntentState.CLAIMED, FlowState.EXECUTING)
    assert trading_desk.states(sound)[0] is IntentState.IN_DOUBT
    assert sweeper.expire_all_leases() == 0


@pytest.mark.parametrize(
    ("late_s", "is_rung"), [(0, True), (1, True), (3, False), (9, False), (10, True), (20, True), (-5, False)]
)
def test_a_due_intent_is_rung_at_once_and_then_now_and_again(
    late_s: int, is_rung: bool, rung: list[UUID]
) -> None:
    intent_id = trading_desk.open_desk().accept()
    Intent.objects.filter(pk=intent_id).update(
        next_at=clock.now() - timedelta(seconds=late_s, milliseconds=5)
    )
    assert sweeper.sweep().rung == int(is_rung)
    assert rung == ([intent_id] if is_rung else [])


def test_an_idle_flow_is_aborted(settings: Settings, rung: list[UUID]) -> None:
    settings.DIR_FLOW_TTL_S = 60
    desk = trading_desk.open_desk()
    flows.open_flow(agent=desk.agent, trigger={})
    busy = desk.accept()
    Flow.objects.update(updated_at=clock.now() - timedelta(seconds=61))
    assert sweeper.sweep(is_thorough=False).idle_flows == 0, "a quick round looks for nothing that can wait"
    assert sweeper.sweep().idle_flows == 1
    assert trading_desk.flow_of(busy).state == FlowState.ACCEPTED
    idle = Flow.objects.get(state=FlowState.ABORTED)
    assert idle.reason == "IDLE_TOO_LONG"
    assert [row.event_type for row in idle.feedback.all()] == ["FLOW_ABORTED"]


def test_a_parent_is_not_idle_while_its_children_stir(settings: Settings, rung: list[UUID]) -> None:
    settings.DIR_FLOW_TTL_S = 60
    desk = trading_desk.open_desk()
    parent = desk.open()
    child = trading_desk.flow_of(desk.accept(parent=parent)).pk
    long_ago, just_now = clock.now() - timedelta(seconds=61), clock.now()
    Flow.objects.filter(pk__in=(parent, child)).update(updated_at=long_ago)
    assert sweeper.sweep().idle_flows == 0
    ended = {"state": FlowState.CLOSED, "ended_at": just_now}
    Flow.objects.filter(pk=child).update(updated_at=just_now, **ended)
    assert sweeper.sweep().idle_flows == 0
    Flow.objects.filter(pk=child).update(updated_at=long_ago)
    assert sweeper.sweep().idle_flows == 1
    assert Flow.objects.get(pk=parent).reason == "IDLE_TOO_LONG"


def test_a_parent_that_got_a_child_since_it_was_chosen_is_left_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, rung: list[UUID]
) -> None:
    settings.DIR_FLOW_TTL_S = 60
    desk = trading_desk.open_desk()
    parent = desk.open()
    desk.open(parent)
    Flow.objects.filter(pk=parent).update(updated_at=clock.now() - timedelta(seconds=61))
    monkeypatch.setattr(due_intents, "list_idle_flows", lambda **_: [parent])
    swept = sweeper.sweep()
    assert (swept.idle_flows, swept.failed) == (0, 0)


def test_what_changed_since_it_was_chosen_is_left_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, rung: list[UUID]
) -> None:
    desk = trading_desk.open_desk()
    waiting = desk.accept()
    alive = desk.accept()
    claim(alive)
    gone = UUID(int=0)
    dfids = [trading_desk.flow_of(waiting).dfid, gone]
    monkeypatch.setattr(due_intents, "list_orphans", lambda **_: [waiting, alive, gone])
    monkeypatch.setattr(due_intents, "list_idle_flows", lambda **_: dfids)
    swept = sweeper.sweep()
    assert (swept.orphans, swept.idle_flows, swept.failed) == (0, 0, 0)


def test_escalations_that_cannot_be_expired_do_not_stop_the_round(
    monkeypatch: pytest.MonkeyPatch, rung: list[UUID]
) -> None:
    intent_id = trading_desk.open_desk().accept()

    def expire() -> int:
        raise RuntimeError("poison")

    monkeypatch.setattr(ports, "expire_escalations", expire)
    assert sweeper.sweep() == SweepResult(rung=1, failed=1)
    assert rung == [intent_id]
