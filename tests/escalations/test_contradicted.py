"""A receipt after a person has signed that nothing happened: both are kept, and people are called."""

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry, Payload
from escalations import left_calls
from escalations.contracts import Action
from escalations.models import EffectStatement, Escalation
from escalations.services import deciding, stating
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import Effect
from runtime.contracts.verdict import StepRequest
from runtime.core import clock, transactions
from runtime.execution.services import claiming, recording
from runtime.execution.services.claiming import Claimed
from runtime.flows.models import Attempt, Feedback, Intent
from runtime.flows.services import locks
from runtime.maintenance.services import payloads
from runtime.resources.models import Resource
from tests.escalations.test_left_in_doubt import REASON, leave, state
from tests.escalations.test_replacing import CLAIMS, called, modify
from tests.escalations.test_stating import HELD, abort
from tests.support import decision_rows, factories, gate_cases, ledger_tampering, resources_pack
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
RECEIPT = Receipt(status_code=200, body=canonical.encode({"order_id": "o-17", "note": "<b>filled</b>"}))
PAGE = "/escalations/in-doubt/"


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


def report(escalation: Escalation, result: CallResult = RECEIPT) -> None:
    """The worker whose lease had ended answers after all."""
    call = Attempt.objects.select_related("intent__flow").get(intent=escalation.intent_id)
    step = StepRequest(
        step=call.step, executor="http", target="", method="POST", path="/", body={}, key="", timeout_s=1
    )
    claim = Claimed(
        intent_id=call.intent_id,
        tenant="default",
        where=locks.IntentFlow(call.intent.flow_id, call.intent.flow.agent_id, call.intent.steps),
        owner=call.lease_owner,
        number=call.number,
        step=step,
        place=None,
        traceparent="",
    )
    transactions.retry_on_conflict(lambda: recording.record(claim, result, jitter=0.5))


def outcomes(intent_id: UUID | None) -> list[dict[str, Any]]:
    """What the agent was told of this intent's end."""
    rows = Feedback.objects.filter(event_type="EXECUTION_OUTCOME").order_by("seq")
    told = [canonical.decode(bytes(row.body)) for row in rows]
    return [body for body in told if body["intent_id"] == str(intent_id)]


def test_people_are_called_and_read_both(in_doubt: Escalation, olivia: User) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED, justification="Nothing in <their> book.")
    assert left_calls.count(tenant="default") == 0
    report(in_doubt)
    (left,) = left_calls.list_calls(tenant="default")
    assert left.contradiction is not None
    assert (left.contradiction.stated_by, left.contradiction.reason) == ("olivia", "Nothing in <their> book.")
    assert canonical.decode(left.contradiction.receipt)["order_id"] == "o-17"
    entry = LedgerEntry.objects.get(kind="attempt:reported_late").payload
    assert entry["contradicts"] == f"user:{olivia.pk}"

    client = sign_in(Role.SENIOR, name="mara")
    page = text_of(client, PAGE)
    for shown in ("olivia stated and signed", "Nothing in &lt;their&gt; book.", "o-17", "&lt;b&gt;filled"):
        assert shown in page
    assert "1 call took effect after all." in text_of(client, "/")
    assert "call in doubt." not in text_of(client, "/")
    assert '<bdi>Calls in doubt</bdi> <span class="n">1</span>' in text_of(client, "/escalations/")
    assert ledger_tampering.differences() == []


def test_the_agent_is_told_and_what_was_given_back_is_used_up(in_doubt: Escalation, olivia: User) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    assert resources_pack.used("cash:USD") == (0, 0)
    report(in_doubt)
    before, after = outcomes(in_doubt.intent_id)
    assert (before["status"], before["effect"], before["receipt"]) == ("FAILED", "NOT_HAPPENED", None)
    assert (after["status"], after["effect"]) == ("FAILED", "HAPPENED")
    assert after["receipt"]["order_id"] == "o-17"
    assert resources_pack.used("cash:USD") == (0, HELD)
    resources_pack.check()
    assert ledger_tampering.differences() == []


def test_what_no_longer_fits_is_not_granted_twice(in_doubt: Escalation, olivia: User) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    Resource.objects.update(capacity=HELD - 1)
    report(in_doubt)
    assert resources_pack.used("cash:USD") == (0, 0)
    assert left_calls.count_contradicted(tenant="default") == 1


@pytest.mark.parametrize(("effect", "used"), [(Effect.HAPPENED, (0, HELD)), (Effect.NOT_HAPPENED, (0, 0))])
def test_who_has_seen_both_has_the_last_word(
    effect: Effect, used: tuple[int, int], in_doubt: Escalation, olivia: User
) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    report(in_doubt)
    mara = factories.user("mara")
    assert state(in_doubt, mara, effect) == stating.StatementResult(effect=effect, dfid=in_doubt.flow_id)
    assert left_calls.count(tenant="default") == 0
    call, stated = Attempt.objects.get(), EffectStatement.objects.get()
    assert (call.effect, call.settled_by, call.contradicts) == (effect.value, f"user:{mara.pk}", "")
    assert canonical.decode(bytes(stated.statement))["contradicts"] == f"user:{olivia.pk}"
    entry = LedgerEntry.objects.get(kind="effect:stated").payload
    assert entry["contradicts"] == f"user:{olivia.pk}"
    assert resources_pack.used("cash:USD") == used
    assert ledger_tampering.differences() == []


def test_a_later_statement_is_contradicted_as_well(desk: factories.Desk, olivia: User) -> None:
    escalation = leave(desk, olivia)
    assert isinstance(state(escalation, olivia, Effect.NOT_HAPPENED), stating.StatementResult)
    report(escalation)
    (left,) = left_calls.list_calls(tenant="default")
    assert left.contradiction is not None
    assert left.contradiction.reason == REASON
    assert isinstance(state(escalation, factories.user("mara"), Effect.HAPPENED), stating.StatementResult)
    assert list(EffectStatement.objects.values_list("sequence", "effect")) == [
        (1, "NOT_HAPPENED"),
        (2, "HAPPENED"),
    ]


@pytest.mark.parametrize("effect", [None, Effect.HAPPENED])
def test_a_receipt_that_contradicts_nobody_calls_nobody(
    effect: Effect | None, in_doubt: Escalation, olivia: User
) -> None:
    abort(in_doubt, olivia, effect)
    report(in_doubt)
    assert left_calls.count(tenant="default") == 0
    told = outcomes(in_doubt.intent_id)
    assert [body["effect"] for body in told] == (
        ["HAPPENED"] if effect is Effect.HAPPENED else ["UNKNOWN", "HAPPENED"]
    )
    assert LedgerEntry.objects.get(kind="attempt:reported_late").payload.get("contradicts") is None


def test_a_late_refusal_contradicts_nobody(in_doubt: Escalation, olivia: User) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    refused = Failure(
        category=FailureCategory.TARGET_REFUSED, failure_class=FailureClass.TERMINAL, detail="no"
    )
    report(in_doubt, refused)
    assert left_calls.count(tenant="default") == 0
    assert len(outcomes(in_doubt.intent_id)) == 1


def test_what_waits_to_run_in_its_place_waits_for_a_person(in_doubt: Escalation, olivia: User) -> None:
    assert isinstance(modify(in_doubt, olivia), deciding.DecisionResult)
    report(in_doubt)
    old, new = Intent.objects.select_related("flow").order_by("created_at")
    assert (old.state, new.state, new.flow.state) == ("CANCELLED", "WITH_PERSON", "ESCALATED")
    asked = Escalation.objects.get(state="OPEN")
    assert (asked.intent_id, asked.reason) == (new.pk, "EFFECT_CONTRADICTED")
    assert left_calls.count_contradicted(tenant="default") == 1
    assert outcomes(old.pk)[-1]["effect"] == "HAPPENED"
    resources_pack.check()
    answer = factories.decide(asked, factories.user("mara"), Action.ABORT)
    assert not isinstance(answer, Problem), answer
    assert outcomes(new.pk)[-1]["effect"] == "NOT_HAPPENED"
    assert resources_pack.used("cash:USD") == (0, HELD)
    assert ledger_tampering.differences() == []
    assert isinstance(state(in_doubt, factories.user("otto"), Effect.NOT_HAPPENED), stating.StatementResult)
    assert resources_pack.used("cash:USD") == (0, 0)
    assert ledger_tampering.differences() == []


@pytest.fixture
def replacing(in_doubt: Escalation, olivia: User) -> tuple[Escalation, Claimed]:
    """What was stated not to have happened, and the claim of what runs in its place."""
    assert isinstance(modify(in_doubt, olivia), deciding.DecisionResult)
    new = Intent.objects.get(state="PENDING")
    claim = transactions.retry_on_conflict(lambda: claiming.claim(new.pk, owner="worker"))
    assert isinstance(claim, Claimed)
    return in_doubt, claim


def busy(claim: Claimed, *, failures: int = 0) -> None:
    """The target refuses the call for now, after so many failures before."""
    failure = Failure(
        category=FailureCategory.TARGET_BUSY,
        failure_class=FailureClass.TRANSIENT,
        detail="429",
        status_code=429,
    )
    Intent.objects.filter(pk=claim.intent_id).update(failures=failures)
    transactions.retry_on_conflict(lambda: recording.record(claim, failure, jitter=0.5))
    Intent.objects.filter(pk=claim.intent_id).update(next_at=clock.now())


def claimed_again(claim: Claimed) -> Claimed | claiming.ClaimRefused:
    return transactions.retry_on_conflict(lambda: claiming.claim(claim.intent_id, owner="worker"))


def test_what_runs_in_its_place_is_not_called_again(replacing: tuple[Escalation, Claimed]) -> None:
    before, claim = replacing
    report(before)
    busy(claim)
    assert claimed_again(claim) == claiming.ClaimRefused(status="BLOCKED", detail=Reason.EFFECT_CONTRADICTED)
    asked = Escalation.objects.get(state="OPEN")
    assert (asked.intent_id, asked.reason) == (claim.intent_id, "EFFECT_CONTRADICTED")
    assert Attempt.objects.filter(intent=claim.intent_id).count() == 1
    resources_pack.check()
    assert ledger_tampering.differences() == []


@pytest.mark.parametrize("effect", [Effect.HAPPENED, Effect.NOT_HAPPENED])
def test_nobody_sends_it_on_before_somebody_who_has_seen_both_has_stated_again(
    effect: Effect, replacing: tuple[Escalation, Claimed]
) -> None:
    before, claim = replacing
    busy(claim, failures=3)
    asked = Escalation.objects.get(state="OPEN")
    assert asked.reason == "REPEATED_FAILURE"
    report(before)
    mara = factories.user("mara")
    for answer in (factories.decide(asked, mara, Action.RESUME), modify(asked, mara, effect=None)):
        assert decision_rows.refused(answer) == (409, "EFFECT_CONTRADICTED")
    assert isinstance(state(before, mara, effect), stating.StatementResult)
    assert isinstance(factories.decide(asked, mara, Action.RESUME), deciding.DecisionResult)
    assert isinstance(claimed_again(claim), Claimed)


def test_after_the_receipt_nobody_states_that_nothing_happened(in_doubt: Escalation, olivia: User) -> None:
    report(in_doubt)
    before = decision_rows.state_of(in_doubt)
    answer = factories.decide(in_doubt, olivia, Action.ABORT, effect=Effect.NOT_HAPPENED)
    assert decision_rows.refused(answer) == (409, "EVIDENCE_CHANGED")
    assert decision_rows.state_of(in_doubt) == before
    abort(in_doubt, olivia, Effect.HAPPENED)
    assert [body["effect"] for body in outcomes(in_doubt.intent_id)] == ["HAPPENED"]


def test_the_page_says_where_the_receipt_was_erased(in_doubt: Escalation, olivia: User) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    report(in_doubt)
    commitment = LedgerEntry.objects.get(kind="attempt:reported_late").payload["receipt_commitment"]
    assert payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="system")
    client: Client = sign_in(Role.SENIOR, name="mara")
    assert "The text of the receipt was erased." in text_of(client, PAGE)


@pytest.mark.parametrize("forged", [b'{"order_id":"none","note":"REJECTED"}', b"", None])
def test_a_receipt_that_was_rewritten_is_not_shown(
    forged: bytes | None, in_doubt: Escalation, olivia: User
) -> None:
    abort(in_doubt, olivia, Effect.NOT_HAPPENED)
    report(in_doubt)
    commitment = LedgerEntry.objects.get(kind="attempt:reported_late").payload["receipt_commitment"]
    row = Payload.objects.filter(commitment=commitment)
    if forged is None:
        row.delete()
    else:
        row.update(content=forged)
    (left,) = left_calls.list_calls(tenant="default")
    assert left.contradiction is not None
    assert (left.contradiction.receipt, left.contradiction.is_tampered) == (b"", True)
    page = text_of(sign_in(Role.SENIOR, name="mara"), PAGE)
    assert "the stored receipt does not match the ledger" in page
    assert "REJECTED" not in page
    assert "was erased" not in page
