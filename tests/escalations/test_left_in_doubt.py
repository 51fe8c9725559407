"""Calls that an ABORT left in doubt: on the list until somebody states what became of them, once, signed."""

from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.contrib.auth.models import User

from audit import canonical, signing
from audit.models import LedgerEntry
from escalations import left_calls
from escalations.contracts import Action
from escalations.models import EffectStatement, Escalation, Evidence
from escalations.policy import Person
from escalations.services import stating
from escalations.services.decision_request import StatementRequest
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.flows.models import Attempt, Feedback, Flow, Intent
from runtime.resources.models import Resource
from tests.escalations.test_replacing import CLAIMS, called
from tests.escalations.test_stating import HELD
from tests.support import factories, gate_cases, ledger_tampering, resources_pack

pytestmark = pytest.mark.django_db
REASON = "The broker's book has no order under this key."


@pytest.fixture
def desk(db: None) -> factories.Desk:
    """A desk whose purchases claim cash."""
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    return factories.desk(kind=gate_cases.kind(claims=CLAIMS))


@pytest.fixture
def left(desk: factories.Desk, olivia: User) -> Escalation:
    """An escalation that was aborted while nobody knew."""
    return leave(desk, olivia)


def leave(desk: factories.Desk, account: User) -> Escalation:
    """A call in doubt that is aborted with one key."""
    escalation = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    answer = factories.decide(escalation, account, Action.ABORT)
    assert not isinstance(answer, Problem), answer
    return escalation


def state(
    escalation: Escalation,
    account: User,
    effect: Effect | None,
    *,
    who: Person | None = None,
    reason: str = REASON,
    number: int = 1,
    intent_id: UUID | None = None,
) -> stating.StatementResult | Problem:
    """State what became of the call of this escalation."""
    about = intent_id or escalation.intent_id
    assert about is not None
    return stating.state(
        tenant="default",
        person=who or factories.person(account),
        user=account,
        request=StatementRequest(intent_id=about, number=number, effect=effect, reason=reason),
    )


def refused(answer: stating.StatementResult | Problem) -> tuple[int, str]:
    assert isinstance(answer, Problem), answer
    assert answer.detail.endswith(".")
    return answer.status, answer.code


@pytest.mark.parametrize(
    ("effect", "used", "released"),
    [(Effect.NOT_HAPPENED, (0, 0), True), (Effect.HAPPENED, (0, HELD), False)],
)
def test_a_statement_takes_the_call_off_the_list_and_gives_back_what_nothing_stands_for(
    effect: Effect, used: tuple[int, int], released: bool, left: Escalation, olivia: User
) -> None:
    assert left_calls.count(tenant="default") == 1
    assert state(left, olivia, effect) == stating.StatementResult(effect=effect, dfid=left.flow_id)
    assert left_calls.count(tenant="default") == 0
    assert resources_pack.used("cash:USD") == used
    resources_pack.check()
    attempt = Attempt.objects.get()
    assert (attempt.effect, attempt.settled_by) == (effect.value, f"user:{olivia.pk}")
    entries = LedgerEntry.objects.filter(stream=str(left.flow_id)).order_by("seq")
    kinds = [*entries.values_list("kind", flat=True)]
    assert ("resource:released" in kinds[kinds.index("effect:stated") :]) is released
    told = Feedback.objects.filter(event_type="ESCALATION_RESOLVED").latest("seq")
    assert canonical.decode(bytes(told.body))["effect"] == effect.value
    assert Flow.objects.get(pk=left.flow_id).state == "ABORTED"
    assert ledger_tampering.differences() == []


def test_the_statement_is_signed_and_names_the_call_and_the_evidence(left: Escalation, olivia: User) -> None:
    state(left, olivia, Effect.HAPPENED)
    row, attempt = EffectStatement.objects.get(), Attempt.objects.get()
    key = Ed25519PublicKey.from_public_bytes(signing.signer().public_key)
    key.verify(bytes(row.signature), bytes(row.statement))
    said = canonical.decode(bytes(row.statement))
    assert len(said.pop("nonce")) == 32
    assert said.pop("stated_at").endswith("Z")
    assert said == {
        "type": "dir-console/effect/1",
        "tenant": "default",
        "escalation_id": str(left.pk),
        "evidence_hash": Escalation.objects.get().evidence_hash,
        "dfid": str(left.flow_id),
        "intent_id": str(left.intent_id),
        "number": 1,
        "step": "order",
        "direction": "FORWARD",
        "target_key": attempt.target_key,
        "effect": "HAPPENED",
        "justification": REASON,
        "approver": f"user:{olivia.pk}",
        "solo": False,
    }
    entry = LedgerEntry.objects.get(kind="effect:stated")
    assert entry.actor == f"user:{olivia.pk}"
    assert entry.payload["statement_digest"] == canonical.digest(bytes(row.statement))
    assert entry.payload["signature"] == bytes(row.signature).hex()


def test_nobody_states_it_twice(left: Escalation, olivia: User) -> None:
    state(left, olivia, Effect.HAPPENED)
    again = state(left, factories.user("mara"), Effect.NOT_HAPPENED)
    assert refused(again) == (409, "ALREADY_STATED")
    assert resources_pack.used("cash:USD") == (0, HELD)
    assert EffectStatement.objects.get().effect == "HAPPENED"


@pytest.mark.parametrize("effect", [None, Effect.UNKNOWN])
def test_not_to_know_is_no_statement(effect: Effect | None, left: Escalation, olivia: User) -> None:
    assert refused(state(left, olivia, effect)) == (400, "STATEMENT_MISSING")
    assert left_calls.count(tenant="default") == 1


def test_a_statement_has_a_reason(left: Escalation, olivia: User) -> None:
    assert refused(state(left, olivia, Effect.HAPPENED, reason=" ")) == (400, "JUSTIFICATION_MISSING")


def test_what_weighs_much_needs_a_fresh_password_and_a_longer_reason(olivia: User) -> None:
    escalation = leave(factories.desk(kind=gate_cases.kind(impact="'HIGH_IMPACT'")), olivia)
    stale = factories.person(olivia, confirmed_at_ms=None)
    assert refused(state(escalation, olivia, Effect.HAPPENED, who=stale)) == (401, "STEP_UP")
    short = state(escalation, olivia, Effect.HAPPENED, reason="seen")
    assert refused(short) == (400, "JUSTIFICATION_MISSING")
    assert isinstance(state(escalation, olivia, Effect.HAPPENED), stating.StatementResult)


def test_who_owns_the_agent_says_nothing_of_its_calls(olivia: User) -> None:
    escalation = leave(factories.desk(owner="olivia"), olivia)
    before = LedgerEntry.objects.count()
    assert refused(state(escalation, olivia, Effect.NOT_HAPPENED)) == (403, "SEPARATION_OF_DUTY")
    assert refused(state(escalation, factories.user("ada", "auditor"), Effect.HAPPENED)) == (
        403,
        "ROLE_MISSING",
    )
    refusals = LedgerEntry.objects.filter(kind="escalation:refused").order_by("pk")
    assert [entry.payload["action"] for entry in refusals] == ["STATE_EFFECT", "STATE_EFFECT"]
    assert LedgerEntry.objects.count() == before + 2


def test_a_call_that_somebody_is_still_asked_of_is_not_on_the_list(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    assert left_calls.list_calls(tenant="default") == []
    assert refused(state(escalation, olivia, Effect.NOT_HAPPENED)) == (409, "ALREADY_STATED")
    assert Intent.objects.get().state == "IN_DOUBT"
    assert resources_pack.used("cash:USD") == (HELD, 0)


@pytest.mark.parametrize("number", [0, 2, 99])
def test_another_attempt_is_not_meant(number: int, left: Escalation, olivia: User) -> None:
    assert refused(state(left, olivia, Effect.HAPPENED, number=number)) == (409, "ALREADY_STATED")


def test_an_intent_of_which_nobody_was_asked_is_not_found(left: Escalation, olivia: User) -> None:
    answer = state(left, olivia, Effect.HAPPENED, intent_id=left.flow_id)
    assert refused(answer) == (404, "ESCALATION_NOT_FOUND")


def test_several_calls_under_one_key_stand_once_and_are_settled_together(
    left: Escalation, olivia: User
) -> None:
    first = Attempt.objects.get()
    Attempt.objects.create(
        intent=first.intent,
        number=2,
        step=first.step,
        target_key=first.target_key,
        lease_owner="worker",
        state="UNKNOWN",
        started_at=clock.now(),
        finished_at=clock.now(),
    )
    (row,) = left_calls.list_calls(tenant="default")
    assert row.call.number == 2
    assert isinstance(state(left, olivia, Effect.NOT_HAPPENED, number=2), stating.StatementResult)
    assert set(Attempt.objects.values_list("effect", flat=True)) == {"NOT_HAPPENED"}


def test_nothing_is_stated_on_evidence_that_was_rewritten(left: Escalation, olivia: User) -> None:
    whole = bytes(Evidence.objects.get().body)
    readable = canonical.encode({**canonical.decode(whole), "impact": "LOW_IMPACT", "findings": []})
    for forged in (b"\x00rubbish", readable):
        Evidence.objects.update(body=forged)
        assert refused(state(left, olivia, Effect.NOT_HAPPENED)) == (409, "TAMPERED")
        assert (
            LedgerEntry.objects.filter(kind="row:mismatched").latest("id").payload["row"] == "evidence.body"
        )
    assert resources_pack.used("cash:USD") == (0, HELD)
    Evidence.objects.update(body=whole)
    assert isinstance(state(left, olivia, Effect.NOT_HAPPENED), stating.StatementResult)
