"""Operational escalations: about what already happened, so neither time nor drift resolves them."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deadlines, deciding, drift_scan
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.execution.services import intent_transitions
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.state.models import Fact, FactVersion
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    """An intent of which nobody knows whether its call took effect."""
    return in_doubt(desk)


def in_doubt(desk: factories.Desk, **changes: Any) -> Escalation:
    """The escalation of an intent whose only attempt never came back."""
    flow = desk.open()
    assert desk.propose(flow, **changes)["verdict"] == "ACCEPT"
    return left_in_doubt(flow)


def left_in_doubt(flow: factories.Opened) -> Escalation:
    """The same of a flow that was accepted."""
    intent = Intent.objects.select_related("proposal").get(flow_id=flow.dfid)
    Attempt.objects.create(
        intent=intent,
        number=1,
        step="order",
        target_key="k" * 64,
        lease_owner="worker",
        state="UNKNOWN",
        error_category="LEASE_ENDED",
        started_at=clock.now(),
        finished_at=clock.now(),
    )
    journal = Journal(flow=flow.row(), actor="system", at=clock.now())
    intent_transitions.ask_person(journal, intent, IntentPlan.of(intent), reason=Reason.IN_DOUBT, failures=1)
    journal.write()
    return Escalation.objects.get(intent=intent)


def test_the_page_shows_every_attempt_and_the_key_that_the_target_saw(escalation: Escalation) -> None:
    shown = factories.evidence_of(escalation).operational
    assert shown is not None
    (attempt,) = shown.attempts
    assert (attempt.key, attempt.state) == ("k" * 64, "UNKNOWN")
    assert shown.intent_id == str(escalation.intent_id)


@pytest.mark.parametrize("tick", [18_951, 18_950])
def test_facts_keep_the_source_of_the_value_that_was_judged(desk: factories.Desk, tick: int) -> None:
    """The escalation opens later than the verdict, and feeds write in between."""
    flow = desk.open()
    judged = Fact.objects.get(path="price.AAPL")
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    factories.write("price.AAPL", tick)
    shown = factories.evidence_of(left_in_doubt(flow))
    (fact,) = [item for item in shown.facts if item.path == "price.AAPL"]
    assert (fact.value, fact.version, fact.digest) == (18_950, judged.version, judged.digest)
    assert fact.written_at == timestamps.iso(judged.written_at)


def test_a_fact_that_never_held_the_value_has_no_source(desk: factories.Desk) -> None:
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    Fact.objects.filter(path="price.AAPL").update(digest="0" * 64)
    FactVersion.objects.filter(path="price.AAPL").update(digest="0" * 64)
    shown = factories.evidence_of(left_in_doubt(flow))
    (fact,) = [item for item in shown.facts if item.path == "price.AAPL"]
    assert (fact.version, fact.writer, fact.written_at, fact.digest) == (None, "", "", "")


def test_no_token_is_spent_and_no_deadline_set(desk: factories.Desk, escalation: Escalation) -> None:
    assert escalation.deadline_at is None
    assert desk.again().bucket_at is None


def test_time_and_drift_resolve_nothing(
    escalation: Escalation, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.write("price.AAPL", 99_999)
    assert drift_scan.revise_open() == 0
    later = clock.now() + timedelta(days=365)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert deadlines.sweep() == 0
    assert isinstance(factories.decide(escalation, olivia, Action.RESUME), deciding.DecisionResult)


def test_resume_tries_again_with_the_same_calls_and_a_new_window(
    escalation: Escalation, olivia: User
) -> None:
    before = Intent.objects.get()
    assert isinstance(factories.decide(escalation, olivia, Action.RESUME), deciding.DecisionResult)
    intent = Intent.objects.get()
    assert (intent.state, intent.failures, intent.flow.state) == ("PENDING", 0, "ACCEPTED")
    assert bytes(intent.requests) == bytes(before.requests)
    assert intent.valid_until >= before.valid_until


def test_mark_done_closes_with_the_receipt_that_was_found(escalation: Escalation, olivia: User) -> None:
    answer = factories.decide(escalation, olivia, Action.MARK_DONE, receipt={"order": 17.0})
    assert isinstance(answer, deciding.DecisionResult)
    row = Outcome.objects.select_related("intent__flow").get()
    assert (row.status, row.recorded_by) == ("SUCCEEDED", f"user:{olivia.pk}")
    assert row.receipt is not None
    assert canonical.decode(bytes(row.receipt)) == {"order": 17}
    assert (row.intent.state, row.intent.flow.state) == ("DONE", "CLOSED")


@pytest.mark.parametrize("receipt", [None, {}])
def test_mark_done_without_a_receipt_is_refused(
    escalation: Escalation, olivia: User, receipt: dict[str, Any] | None
) -> None:
    before = decision_rows.state_of(escalation)
    answer = factories.decide(escalation, olivia, Action.MARK_DONE, receipt=receipt)
    assert decision_rows.refused(answer) == (400, "RECEIPT_MISSING")
    assert decision_rows.state_of(escalation) == before


def test_abort_makes_no_further_call(escalation: Escalation, olivia: User) -> None:
    answer = factories.decide(escalation, olivia, Action.ABORT, justification="")
    assert isinstance(answer, deciding.DecisionResult)
    intent = Intent.objects.select_related("flow").get()
    assert (intent.state, intent.flow.state, intent.flow.reason) == ("FAILED", "ABORTED", "ABORTED_BY_PERSON")


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.REQUEST_INFO])
def test_the_actions_of_the_other_family_are_refused(
    escalation: Escalation, olivia: User, action: Action
) -> None:
    answer = factories.decide(escalation, olivia, action, params=gate_cases.PARAMS)
    assert decision_rows.refused(answer) == (400, "ACTION_UNKNOWN")


def test_a_high_impact_asks_for_a_fresh_password_but_for_no_amount(olivia: User) -> None:
    desk = factories.desk(kind=gate_cases.kind(impact="'HIGH_IMPACT'"))
    escalation = in_doubt(desk)
    stale = factories.person(olivia, confirmed_at_ms=None)
    answer = factories.decide(escalation, olivia, Action.RESUME, who=stale, typed_again="")
    assert decision_rows.refused(answer) == (401, "STEP_UP")
    answer = factories.decide(escalation, olivia, Action.RESUME, typed_again="")
    assert isinstance(answer, deciding.DecisionResult)


def test_a_captured_resume_posted_again_makes_no_second_try(escalation: Escalation, olivia: User) -> None:
    request = factories.decision_request(escalation, Action.RESUME)
    named: dict[str, Any] = {
        "tenant": "default",
        "escalation_id": escalation.pk,
        "user": olivia,
        "request": request,
    }
    assert isinstance(deciding.decide(person=factories.person(olivia), **named), deciding.DecisionResult)
    again = deciding.decide(person=factories.person(olivia), **named)
    assert decision_rows.refused(again) == (409, "ALREADY_DECIDED")
