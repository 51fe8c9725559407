"""What a person says became of a call in doubt: it goes with the decision, and decides what is held."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.flows.models import Attempt, Feedback, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services import flows
from runtime.resources.models import Resource
from tests.escalations.test_replacing import CLAIMS, called, modify
from tests.support import decision_rows, factories, gate_cases, ledger_tampering, resources_pack

pytestmark = pytest.mark.django_db
HELD = 94_750


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


def abort(escalation: Escalation, account: User, effect: Effect | None, **fields: Any) -> Decision:
    """ABORT with these words of the call."""
    answer = factories.decide(escalation, account, Action.ABORT, effect=effect, **fields)
    assert isinstance(answer, deciding.DecisionResult), answer
    return Decision.objects.get(escalation=escalation)


def said_of(decision: Decision) -> tuple[object, object, object]:
    """The effect in the signed statement, in the ledger's entry, and in what the agent is told."""
    entry = LedgerEntry.objects.get(kind="escalation:decided").payload
    told = Feedback.objects.filter(event_type="ESCALATION_RESOLVED").get()
    return (
        canonical.decode(bytes(decision.statement)).get("effect"),
        entry["effect"],
        canonical.decode(bytes(told.body)).get("effect"),
    )


@pytest.mark.parametrize(
    ("effect", "used", "left", "known"),
    [
        (None, (0, HELD), 1, ""),
        (Effect.UNKNOWN, (0, HELD), 1, ""),
        (Effect.HAPPENED, (0, HELD), 0, "HAPPENED"),
        (Effect.NOT_HAPPENED, (0, 0), 0, "NOT_HAPPENED"),
    ],
)
def test_an_abort_frees_what_is_held_only_where_nothing_happened(
    effect: Effect | None,
    used: tuple[int, int],
    left: int,
    known: str,
    in_doubt: Escalation,
    olivia: User,
) -> None:
    decision = abort(in_doubt, olivia, effect)
    assert resources_pack.used("cash:USD") == used
    resources_pack.check()
    assert ledger_tampering.differences() == []
    assert calls_in_doubt.list_calls(tenant="default").count() == left
    attempt = Attempt.objects.get()
    assert (attempt.effect, attempt.settled_by) == (known, f"user:{olivia.pk}" if known else "")
    assert said_of(decision) == ((effect or Effect.UNKNOWN).value,) * 3
    ended = canonical.decode(bytes(Feedback.objects.get(event_type="EXECUTION_OUTCOME").body))
    assert (ended["status"], ended["effect"]) == ("FAILED", (effect or Effect.UNKNOWN).value)
    assert Intent.objects.get().state == "FAILED"


def test_an_abort_that_only_stops_needs_nothing_but_the_one_key(in_doubt: Escalation, olivia: User) -> None:
    stale = factories.person(olivia, confirmed_at_ms=None)
    abort(in_doubt, olivia, None, who=stale, justification="", typed_again="")


def test_an_abort_that_says_what_became_of_the_call_gives_its_reason(
    in_doubt: Escalation, olivia: User
) -> None:
    before = decision_rows.state_of(in_doubt)
    answer = factories.decide(in_doubt, olivia, Action.ABORT, effect=Effect.NOT_HAPPENED, justification=" ")
    assert decision_rows.refused(answer) == (400, "JUSTIFICATION_MISSING")
    assert decision_rows.state_of(in_doubt) == before


def test_who_owns_the_agent_may_stop_it_but_frees_nothing(olivia: User) -> None:
    escalation = called(factories.desk(owner="olivia"), "UNKNOWN", Reason.IN_DOUBT)
    answer = factories.decide(escalation, olivia, Action.ABORT, effect=Effect.NOT_HAPPENED)
    assert decision_rows.refused(answer) == (403, "SEPARATION_OF_DUTY")
    abort(escalation, olivia, Effect.UNKNOWN)


def test_where_nothing_is_in_doubt_nothing_is_stated(desk: factories.Desk, olivia: User) -> None:
    failed = called(desk, "FAILED", Reason.REPEATED_FAILURE)
    decision = abort(failed, olivia, Effect.HAPPENED)
    assert said_of(decision) == (None, None, None)
    ended = canonical.decode(bytes(Feedback.objects.get(event_type="EXECUTION_OUTCOME").body))
    assert ended["effect"] == "NOT_HAPPENED"
    assert resources_pack.used("cash:USD") == (0, 0)


@pytest.mark.parametrize("effect", [None, Effect.UNKNOWN, Effect.HAPPENED])
def test_nothing_runs_in_place_of_a_call_that_may_have_taken_effect(
    effect: Effect | None, in_doubt: Escalation, olivia: User
) -> None:
    before = decision_rows.state_of(in_doubt)
    assert decision_rows.refused(modify(in_doubt, olivia, effect=effect)) == (400, "STATEMENT_MISSING")
    assert decision_rows.state_of(in_doubt) == before
    assert resources_pack.used("cash:USD") == (HELD, 0)


def test_what_is_replaced_is_settled_with_the_statement(in_doubt: Escalation, olivia: User) -> None:
    assert isinstance(modify(in_doubt, olivia), deciding.DecisionResult)
    assert said_of(Decision.objects.get()) == ("NOT_HAPPENED",) * 3
    old = Attempt.objects.get()
    assert (old.effect, old.settled_by) == ("NOT_HAPPENED", f"user:{olivia.pk}")
    assert not calls_in_doubt.list_calls(tenant="default").exists()


def test_the_agent_puts_nothing_in_its_place(desk: factories.Desk, in_doubt: Escalation) -> None:
    dfid = in_doubt.flow_id
    for call in (flows.cancel, flows.close):
        answer = call(agent=desk.again(), dfid=dfid, reason="Another way")
        assert isinstance(answer, Problem)
        assert answer.status == 409
    flow = factories.Opened(dfid=dfid, context_ref="0" * 64)
    refused = desk.submit(flow)
    assert isinstance(refused, Problem)
    assert (refused.status, refused.code) == (409, "FLOW_NOT_OPEN")
    assert Intent.objects.get().state == "IN_DOUBT"
    assert resources_pack.used("cash:USD") == (HELD, 0)
