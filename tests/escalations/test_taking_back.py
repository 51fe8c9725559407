"""What a person decided waits for the end of its undo window, and can be taken back until then."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from audit import canonical
from escalations.contracts import Action, Occasion
from escalations.models import Decision, Escalation, Notice
from escalations.services import deciding, taking_back
from escalations.services.notices import sending
from runtime.contracts.problem import Problem
from runtime.contracts.receipt import FailureClass
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Feedback, Intent
from runtime.flows.queries import due_intents
from runtime.kernel import salts
from runtime.resources.models import Reservation, Resource
from tests.support import decision_rows, factories, gate_cases, notice_receivers, resources_pack

pytestmark = pytest.mark.django_db
# The kind is reversible, and its window is of 30 s: a quarter of it.
LOW_S = 5


@pytest.fixture(autouse=True)
def _undo(settings: Settings) -> None:
    settings.DIR_UNDO_MAX_S = 60


def take_back(escalation: Escalation, account: User, **fields: Any) -> taking_back.TakenBack | Problem:
    return taking_back.take_back(
        tenant=factories.TENANT, escalation_id=escalation.pk, person=factories.person(account, **fields)
    )


def told(escalation: Escalation) -> list[str]:
    rows = Feedback.objects.filter(flow=escalation.flow_id).order_by("seq")
    return list(rows.values_list("event_type", flat=True))


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    at = clock.now() + timedelta(seconds=seconds)
    monkeypatch.setattr(clock, "now", lambda: at)


def test_the_end_is_announced_once_it_can_no_longer_be_taken_back(
    desk: factories.Desk, olivia: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with notice_receivers.receiver() as receiver:
        notice_receivers.add(receiver.url, occasions=(Occasion.CLOSED,))
        escalation = desk.escalate()
        factories.decide(escalation, olivia)
        assert sending.send_due() == 0
        assert Notice.objects.get().next_at == Intent.objects.get().not_before
        assert isinstance(take_back(escalation, olivia), taking_back.TakenBack)
        assert not Notice.objects.exists()
        factories.decide(Escalation.objects.get(), olivia, Action.MODIFY, params=gate_cases.PARAMS)
        later(monkeypatch, LOW_S + 1)
        assert sending.send_due() == 1
        assert [one["data"]["resolution"] for one in receiver.bodies()] == ["MODIFY"]


def attempt(intent: Intent) -> str:
    return attempting.attempt(intent.pk, owner="worker").status.value


def test_nothing_runs_before_the_end_of_the_window(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    before = told(escalation)
    answer = factories.decide(escalation, olivia)
    assert isinstance(answer, deciding.DecisionResult)
    intent, decision = Intent.objects.get(), Decision.objects.get()
    assert answer.not_before == intent.not_before == decision.decided_at + timedelta(seconds=LOW_S)
    # Its window counts from the end of the undo window, and the statement says both.
    assert intent.not_before is not None
    window = intent.proposal.valid_until - intent.proposal.received_at
    assert intent.valid_until - intent.not_before == window
    stated = canonical.decode(bytes(decision.statement))
    assert stated["not_before"] < stated["valid_until"]
    assert attempt(intent) == "NOT_DUE"
    assert due_intents.list_due(at=clock.now(), limit=9) == []
    # The agent is told nothing: a decision that is taken back was none.
    assert told(escalation) == before
    later(monkeypatch, LOW_S)
    assert attempt(intent) != "NOT_DUE"
    assert told(escalation)[len(before) :][:2] == ["VALIDATION_FEEDBACK", "ESCALATION_RESOLVED"]
    assert Intent.objects.get().attempts == 1
    assert decision_rows.unlike(escalation) == []


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_taken_back_it_is_open_again_and_nothing_has_happened(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    escalation = desk.escalate()
    before, kinds = told(escalation), len(decision_rows.recorded(escalation))
    fields: dict[str, Any] = (
        {"params": {**gate_cases.PARAMS, "quantity": 1}} if action is Action.MODIFY else {}
    )
    assert isinstance(factories.decide(escalation, olivia, action, **fields), deciding.DecisionResult)
    back = take_back(escalation, olivia)
    assert isinstance(back, taking_back.TakenBack)
    row = Escalation.objects.get()
    assert (row.state, row.resolution, row.resolved_at, row.flow.state) == ("OPEN", "", None, "ESCALATED")
    assert row.deadline_at == back.deadline_at == escalation.deadline_at
    intent = Intent.objects.get()
    assert intent.state == "CANCELLED"
    assert attempt(intent) == "ENDED"
    assert told(escalation) == before
    assert Decision.objects.get().state == "TAKEN_BACK"
    recorded = decision_rows.recorded(escalation)[kinds:]
    assert [kind for kind, actor in recorded if actor == f"user:{olivia.pk}"] == [
        kind for kind, _ in recorded
    ]
    assert [kind for kind, _ in recorded][-4:] == [
        "intent:cancelled",
        "escalation:reopened",
        "flow:moved",
        "record:emitted",
    ]
    assert decision_rows.unlike(escalation) == []


def test_after_that_it_can_be_decided_again(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    stale = factories.decision_request(escalation)
    factories.decide(escalation, olivia)
    take_back(escalation, olivia)
    # The form of before is not current.
    assert decision_rows.refused(factories.send(escalation, olivia, stale)) == (409, "VERSION_CHANGED")
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)
    assert list(Decision.objects.values_list("sequence", "state")) == [(1, "TAKEN_BACK"), (2, "IN_EFFECT")]
    live = Intent.objects.get(state="PENDING")
    later(monkeypatch, LOW_S)
    assert attempt(live) != "NOT_DUE"
    assert decision_rows.unlike(escalation) == []


def test_its_deadline_leaves_two_minutes(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    assert escalation.deadline_at is not None
    left_s = (escalation.deadline_at - clock.now()).total_seconds()
    later(monkeypatch, left_s - 10)
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)
    back = take_back(escalation, olivia)
    assert isinstance(back, taking_back.TakenBack)
    assert back.deadline_at == clock.now() + taking_back.LEAST_LEFT
    assert decision_rows.unlike(escalation) == []
    assert Escalation.objects.get().deadline_at == back.deadline_at
    # What the page checks before anybody decides, too.
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)


def test_at_the_end_of_the_window_it_is_too_late(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    later(monkeypatch, LOW_S)
    before = decision_rows.state_of(escalation)
    assert decision_rows.refused(take_back(escalation, olivia)) == (409, "UNDO_OVER")
    assert decision_rows.state_of(escalation) == before
    assert decision_rows.last_payload(escalation) == {
        "escalation_id": str(escalation.pk),
        "action": "TAKE_BACK",
        "code": "UNDO_OVER",
    }


@pytest.mark.parametrize("action", [None, Action.ABORT])
def test_there_is_nothing_to_take_back(desk: factories.Desk, olivia: User, action: Action | None) -> None:
    """An escalation that is open, and one that was aborted: the agent was told at once."""
    escalation = desk.escalate()
    if action is not None:
        factories.decide(escalation, olivia, action)
        assert "FLOW_ABORTED" in told(escalation)
    assert decision_rows.refused(take_back(escalation, olivia)) == (409, "UNDO_OVER")


def test_whoever_may_decide_may_take_it_back(desk: factories.Desk, olivia: User) -> None:
    """The owner of the agent too: taking back only stops."""
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    auditor = factories.user("ada", "auditor")
    assert decision_rows.refused(take_back(escalation, auditor)) == (403, "ROLE_MISSING")
    owner = factories.user("owen", groups=("trading-desk",))
    assert isinstance(take_back(escalation, owner), taking_back.TakenBack)
    assert decision_rows.recorded(escalation)[-1][1] == f"user:{owner.pk}"


def test_what_was_reserved_is_free_again(db: None, olivia: User) -> None:
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    claims = [{"resource": "cash:USD", "amount": "params.notional_cents"}]
    escalation = factories.desk(kind=gate_cases.kind(claims=claims)).escalate()
    factories.decide(escalation, olivia)
    assert [row.state for row in Reservation.objects.all()] == ["HELD"]
    take_back(escalation, olivia)
    assert [(row.state, row.reason) for row in Reservation.objects.all()] == [("RELEASED", "TAKEN_BACK")]
    assert decision_rows.unlike(escalation) == []


def test_a_resumed_call_is_as_it_was(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.failure(FailureClass.UNKNOWN))
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    assert attempt(Intent.objects.get()) == "WITH_PERSON"
    escalation = Escalation.objects.get()
    names = ("state", "valid_until", "lifted", "purpose", "answered", "failures")
    before = Intent.objects.values(*names).get()
    assert isinstance(factories.decide(escalation, olivia, Action.RESUME), deciding.DecisionResult)
    intent = Intent.objects.get()
    assert intent.state == "PENDING"
    assert intent.not_before == Decision.objects.get().decided_at + timedelta(seconds=LOW_S)
    assert salts.find(bytes(intent.undo)) is not None
    assert attempt(intent) == "NOT_DUE"
    assert isinstance(take_back(escalation, olivia), taking_back.TakenBack)
    assert Intent.objects.values(*names).get() == before
    row = Escalation.objects.get()
    assert (row.state, row.deadline_at, row.flow.state) == ("OPEN", None, "ESCALATED")
    assert decision_rows.unlike(escalation) == []
    # It is in doubt again: other parameters need a statement of what became of the call.
    other = {**gate_cases.PARAMS, "quantity": 1}
    answer = factories.decide(escalation, olivia, Action.MODIFY, params=other)
    assert decision_rows.refused(answer)[1] == "STATEMENT_MISSING"
    assert isinstance(factories.decide(escalation, olivia, Action.RESUME), deciding.DecisionResult)
    later(monkeypatch, LOW_S)
    assert attempt(Intent.objects.get()) != "NOT_DUE"
    assert decision_rows.unlike(escalation) == []


def test_whoever_moves_the_row_forward_gains_nothing(desk: factories.Desk, olivia: User) -> None:
    """The end of the window is in the entry: a row that says otherwise goes to a person."""
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    Intent.objects.update(not_before=clock.now(), next_at=clock.now())
    assert attempt(Intent.objects.get()) == "BLOCKED"
    assert Intent.objects.get().attempts == 0
    assert any(item.startswith("intent.not_before is ") for item in decision_rows.unlike(escalation))


def test_what_the_agent_is_told_cannot_be_rewritten(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    forged = canonical.encode({"before": None, "feedback": []})
    Intent.objects.update(undo=forged)
    later(monkeypatch, LOW_S)
    assert attempt(Intent.objects.get()) == "BLOCKED"
    assert any(item.startswith("intent.undo is ") for item in decision_rows.unlike(escalation))


def test_an_agent_that_withdraws_in_the_window_ends_it(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    factories.cancel(desk, escalation)
    assert decision_rows.refused(take_back(escalation, olivia)) == (409, "UNDO_OVER")
    assert Intent.objects.get().state == "CANCELLED"
    assert decision_rows.unlike(escalation) == []
