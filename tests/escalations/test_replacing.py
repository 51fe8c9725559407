"""MODIFY after an intent: the old one ends, what it holds is free, and another runs with another key."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.policy import Person
from escalations.services import deciding, dry_running
from runtime.contracts.outcome import RenderedIntent
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.contracts.verdict import VerdictDocument
from runtime.core import clock
from runtime.execution.services import intent_transitions, recovery
from runtime.flows.models import Attempt, Feedback, Intent, Outcome
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.resources.models import Reservation, Resource
from runtime.resources.services import reservations
from tests.support import decision_rows, factories, gate_cases, resources_pack

pytestmark = pytest.mark.django_db

SMALLER = {**gate_cases.PARAMS, "quantity": 2, "notional_cents": 37_900}
CLAIMS = [{"resource": "cash:USD", "amount": "params.notional_cents"}]


@pytest.fixture
def desk(db: None) -> factories.Desk:
    """A desk whose purchases claim cash."""
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    return factories.desk(kind=gate_cases.kind(claims=CLAIMS))


@pytest.fixture
def in_doubt(desk: factories.Desk) -> Escalation:
    """An intent of which nobody knows whether its call took effect."""
    return called(desk, "UNKNOWN", Reason.IN_DOUBT)


@pytest.fixture
def failed(desk: factories.Desk) -> Escalation:
    """An intent whose target refused every try."""
    return called(desk, "FAILED", Reason.REPEATED_FAILURE)


def called(desk: factories.Desk, state: str, reason: Reason, **changes: Any) -> Escalation:
    """An accepted proposal with one attempt, and what it holds pinned."""
    flow = desk.open()
    assert desk.propose(flow, **changes)["verdict"] == "ACCEPT"
    return give_to_person(Intent.objects.get(flow_id=flow.dfid), state, reason)


def give_to_person(intent: Intent, state: str, reason: Reason) -> Escalation:
    """One attempt that ended in `state`, and the escalation that follows."""
    Attempt.objects.create(
        intent=intent,
        number=1,
        step="order",
        target_key="k" * 64,
        lease_owner="worker",
        state=state,
        started_at=clock.now(),
        finished_at=clock.now(),
    )
    journal = Journal(flow=intent.flow, actor="system", at=clock.now())
    journal.add(*(reservations.pin(intent=intent, at=clock.now()) or ()))
    intent_transitions.ask_person(journal, intent, IntentPlan.of(intent), reason=reason, failures=1)
    journal.write()
    return Escalation.objects.get(intent=intent)


def modify(escalation: Escalation, account: User, **fields: Any) -> deciding.DecisionResult | Problem:
    """MODIFY to a smaller order, with the statement where one is needed."""
    return factories.decide(
        escalation, account, Action.MODIFY, **{"params": SMALLER, "effect": Effect.NOT_HAPPENED, **fields}
    )


def replaced(answer: deciding.DecisionResult | Problem) -> tuple[Intent, Intent]:
    """The intent that ended, and the one in its place."""
    assert isinstance(answer, deciding.DecisionResult), answer
    old, new = Intent.objects.order_by("created_at")
    return old, new


def test_the_old_intent_ends_and_a_new_one_with_a_new_key_waits(failed: Escalation, olivia: User) -> None:
    old, new = replaced(modify(failed, olivia))
    assert (old.state, new.state, new.flow.state) == ("CANCELLED", "PENDING", "ACCEPTED")
    assert not Outcome.objects.exists()
    first, second = (RenderedIntent.from_bytes(bytes(intent.requests)).steps[0] for intent in (old, new))
    assert first.key != second.key
    assert second.body["params"] == SMALLER
    assert new.proposal.author == f"user:{olivia.pk}"


def test_what_was_held_is_free_and_the_new_amount_is_held(failed: Escalation, olivia: User) -> None:
    assert resources_pack.used("cash:USD") == (94_750, 0)
    old, new = replaced(modify(failed, olivia))
    assert resources_pack.used("cash:USD") == (37_900, 0)
    assert list(Reservation.objects.filter(proposal=old.proposal).values_list("state", "reason")) == [
        ("RELEASED", "REPLACED")
    ]
    assert list(Reservation.objects.filter(proposal=new.proposal).values_list("state", "amount")) == [
        ("HELD", 37_900)
    ]
    resources_pack.check()


def test_more_than_is_free_beside_its_own_fits_since_its_own_is_given_back(
    desk: factories.Desk, failed: Escalation, olivia: User
) -> None:
    more = {**gate_cases.PARAMS, "notional_cents": 100_000}
    replaced(modify(failed, olivia, params=more))
    assert resources_pack.used("cash:USD") == (100_000, 0)
    resources_pack.check()


def test_what_the_gate_refuses_leaves_the_old_intent_and_what_it_holds(
    failed: Escalation, olivia: User
) -> None:
    before = decision_rows.state_of(failed)
    over = {**gate_cases.PARAMS, "notional_cents": 120_000}
    assert decision_rows.refused(modify(failed, olivia, params=over)) == (409, "GATE_REFUSED")
    assert decision_rows.refused(modify(failed, olivia, params=None)) == (400, "PARAMS_MISSING")
    assert decision_rows.refused(modify(failed, olivia, params={})) == (409, "GATE_REFUSED")
    assert decision_rows.state_of(failed) == before
    assert Intent.objects.get().state == "WITH_PERSON"
    assert resources_pack.used("cash:USD") == (94_750, 0)
    resources_pack.check()


def test_a_call_in_doubt_needs_a_statement_that_it_had_no_effect(in_doubt: Escalation, olivia: User) -> None:
    before = decision_rows.state_of(in_doubt)
    assert decision_rows.refused(modify(in_doubt, olivia, effect=None)) == (400, "STATEMENT_MISSING")
    assert decision_rows.state_of(in_doubt) == before
    old, new = replaced(modify(in_doubt, olivia))
    assert (old.state, new.state) == ("CANCELLED", "PENDING")
    said = canonical.decode(bytes(Decision.objects.get().statement))
    assert (said["action"], said["params"]) == ("MODIFY", SMALLER)
    assert said["effect"] == "NOT_HAPPENED"
    assert said["superseded_intent_id"] == str(old.pk)
    entry = LedgerEntry.objects.get(kind="intent:superseded")
    assert entry.payload == {
        "intent_id": str(old.pk),
        "by_intent_id": str(new.pk),
        "stated_without_effect": True,
    }


def test_an_older_attempt_in_doubt_counts_too(in_doubt: Escalation, olivia: User) -> None:
    Intent.objects.update(state="WITH_PERSON")
    assert decision_rows.refused(modify(in_doubt, olivia, effect=None)) == (400, "STATEMENT_MISSING")


def test_a_plain_failure_needs_no_statement(failed: Escalation, olivia: User) -> None:
    replaced(modify(failed, olivia, effect=None))
    said = canonical.decode(bytes(Decision.objects.get().statement))
    assert "effect" not in said


def test_nothing_runs_in_place_of_what_has_taken_effect(failed: Escalation, olivia: User) -> None:
    Attempt.objects.update(state="SUCCEEDED")
    assert decision_rows.refused(modify(failed, olivia)) == (409, "STEPS_DONE")


def test_the_agent_hears_what_runs_instead_and_no_outcome(failed: Escalation, olivia: User) -> None:
    seen = Feedback.objects.latest("seq").seq
    old, new = replaced(modify(failed, olivia))
    told = {
        row.event_type: canonical.decode(bytes(row.body)) for row in Feedback.objects.filter(seq__gt=seen)
    }
    assert set(told) == {"VALIDATION_FEEDBACK", "ESCALATION_RESOLVED"}
    assert told["ESCALATION_RESOLVED"] == {
        "escalation_id": str(failed.pk),
        "action": "MODIFY",
        "params": SMALLER,
        "superseded_intent_id": str(old.pk),
        "intent_id": str(new.pk),
    }


def test_facts_that_moved_are_shown_before_anything_new_runs(failed: Escalation, olivia: User) -> None:
    factories.write("price.AAPL", 25_000)
    assert decision_rows.refused(modify(failed, olivia)) == (409, "EVIDENCE_CHANGED")
    row = Escalation.objects.get()
    shown = factories.evidence_of(row)
    assert row.revision == 2
    assert {fact.path: fact.value for fact in shown.facts}["price.AAPL"] == 25_000
    assert shown.operational is not None
    assert len(shown.operational.attempts) == 1
    replaced(modify(row, olivia))


def test_facts_that_moved_are_no_reason_to_look_again_for_other_actions(
    failed: Escalation, olivia: User
) -> None:
    factories.write("price.AAPL", 25_000)
    assert isinstance(factories.decide(failed, olivia, Action.RESUME), deciding.DecisionResult)


def test_what_an_earlier_person_lifted_is_lifted_up_to_its_value(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate(params={**gate_cases.PARAMS, "notional_cents": 140_000})
    factories.decide(escalation, olivia, Action.OVERRIDE)
    operational = give_to_person(Intent.objects.get(), "FAILED", Reason.REPEATED_FAILURE)
    over = {**gate_cases.PARAMS, "notional_cents": 145_000}
    assert decision_rows.refused(modify(operational, olivia, params=over)) == (409, "GATE_REFUSED")
    replaced(modify(operational, olivia, params={**over, "notional_cents": 130_000}))
    assert resources_pack.used("cash:USD") == (130_000, 0)


def test_a_heavier_impact_asks_for_password_and_amount(olivia: User) -> None:
    desk = factories.desk(kind=gate_cases.kind(impact="'HIGH_IMPACT'"))
    escalation = called(desk, "FAILED", Reason.REPEATED_FAILURE)
    stale: Person = factories.person(olivia, confirmed_at_ms=None)
    assert decision_rows.refused(modify(escalation, olivia, who=stale)) == (401, "STEP_UP")
    assert decision_rows.refused(modify(escalation, olivia, typed_again="")) == (400, "TYPE_AGAIN")
    replaced(modify(escalation, olivia))


def test_the_dry_run_judges_on_the_facts_a_decision_would_be_bound_to(
    failed: Escalation, olivia: User
) -> None:
    factories.write("price.AAPL", 25_000)
    before = decision_rows.state_of(failed)
    answer = dry_running.dry_run(
        tenant="default",
        escalation_id=failed.pk,
        person=factories.person(olivia),
        request=factories.decision_request(failed, Action.MODIFY, params=SMALLER),
    )
    assert isinstance(answer, VerdictDocument)
    assert answer.decision == "ACCEPT"
    assert decision_rows.state_of(failed) == before


def test_the_replacement_can_be_cancelled_and_holds_nothing_then(
    desk: factories.Desk, failed: Escalation, olivia: User
) -> None:
    replaced(modify(failed, olivia))
    ended = flows.cancel(agent=desk.again(), dfid=failed.flow_id, reason="")
    assert not isinstance(ended, Problem)
    assert resources_pack.used("cash:USD") == (0, 0)
    resources_pack.check()


def test_only_an_intent_that_is_with_people_is_superseded(failed: Escalation) -> None:
    intent = Intent.objects.get()
    intent.state = "DONE"
    journal = Journal(flow=intent.flow, actor="user:1", at=clock.now())
    with pytest.raises(ValueError, match="is not with a person"):
        recovery.supersede(journal=journal, intent=intent, by_intent_id="x", effect=None)
