"""The record of a call: one transaction, written only by the worker that still holds the claim."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from django.conf import settings
from django.db.models import QuerySet

from audit import actors, events, ledger, statements
from audit.payload_keys import PayloadClass
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import (
    LIVE_INTENTS,
    OPEN_ATTEMPTS,
    AttemptState,
    Direction,
    Effect,
    FlowState,
    IntentState,
    OutcomeStatus,
    Purpose,
)
from runtime.core import clock, transactions
from runtime.epochs.services import boots
from runtime.execution.services import (
    callbacks,
    circuit,
    doubts,
    held_claims,
    intent_transitions,
    metering,
    result_rules,
    saga,
)
from runtime.execution.services.callbacks import Awaited
from runtime.execution.services.claiming import Claimed
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import locks, redacting
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import execution
from runtime.kernel.execution import EscalateToPerson, Fail, FinishedAttempt, RetryAt, Succeed
from runtime.kernel.routes import CloseFailed, FallBack, Routed
from runtime.resources.services import reservations


@dataclass(frozen=True)
class TooLate:
    """The claim had ended before the answer came: the answer is noted, and changes nothing."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """What followed an attempt, and the state that its intent has now."""

    action: Routed
    state: IntentState


def record(claim: Claimed, result: CallResult, *, jitter: float) -> RecordedCall | TooLate | Awaited:
    """Record what came of a call, inside the caller's transaction."""
    with statements.together():
        return _record(claim, result, jitter)


def _record(claim: Claimed, result: CallResult, jitter: float) -> RecordedCall | TooLate | Awaited:
    journal, intent, attempt = _reopen(claim)
    plan = IntentPlan.of(intent)
    result = redacting.take_receipt(
        journal, result, plan.redact, intent_id=str(intent.pk), number=claim.number
    )
    if not _is_ours(intent, attempt, claim):
        if note_late(journal, intent, attempt, result):
            journal.write()
        return TooLate()
    circuit.report_result(journal, intent, step=claim.step, number=claim.number, result=result)
    if claim.later is not None:
        if isinstance(result, Receipt) and result.status_code == callbacks.ACCEPTED:
            awaited = callbacks.await_report(
                journal, intent, attempt, step=claim.step, location="".join(claim.later.locations)
            )
            journal.write()
            return awaited
        # Nobody can report the result of a target that is to be asked and named no place.
        comes_late = None if claim.later.is_asked_for else result
        callbacks.close(journal, intent, number=claim.number, result=comes_late)
    action = follow_result(journal, intent, plan, attempt, result, on_unknown=claim.on_unknown, jitter=jitter)
    journal.write()
    return RecordedCall(action=action, state=IntentState(intent.state))


def follow_result(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    attempt: Attempt,
    result: CallResult,
    *,
    on_unknown: OnUnknown,
    jitter: float,
    valid_until: datetime | None = None,
) -> Routed:
    """End the attempt and do what follows from its result: every result passes here.

    `valid_until` is a new end of the window, for the steps that follow.
    """
    key = attempt.target_key
    tried = _tried(intent, result, key=key, on_unknown=on_unknown, at=journal.at)
    follows = execution.decide(tried, at=journal.at, jitter=jitter)
    if execution.is_settled_by_probe(tried, follows):
        doubts.settle(journal=journal, intent=intent, effect=Effect.NOT_HAPPENED, by=doubts.PROBE, key=key)
    decided = result_rules.choose_route(journal, intent, plan, tried=tried, action=follows, jitter=jitter)
    action = decided.action
    kept = _finish(journal, attempt, result, again=action if isinstance(action, RetryAt) else None)
    metering.charge(journal, intent, plan, attempt, result)
    result_rules.record_route(journal, intent, plan, decided=decided, result=result)
    match action:
        case Succeed(receipt=receipt):
            asked = saga.question(journal, intent, plan, receipt=receipt.body, receipt_commitment=kept or "")
            if asked.reason is not None:
                return EscalateToPerson(reason=asked.reason, failures=intent.failures)
            saga.advance(
                journal,
                intent,
                plan,
                receipt=receipt.body,
                receipt_commitment=kept or "",
                recorded_by=actors.SYSTEM,
                valid_until=valid_until,
                are_facts_written=asked.are_facts_written,
                may_be_in_doubt=tried.in_doubt,
            )
        case RetryAt():
            intent_transitions.schedule_retry(intent, again=action)
        case EscalateToPerson(reason=Reason.RECEIPT_INVALID) if isinstance(result, Receipt):
            saga.question(
                journal, intent, plan, receipt=result.body, receipt_commitment=kept or "", is_routed=True
            )
        case EscalateToPerson(reason=reason, failures=failures):
            intent_transitions.ask_person(journal, intent, plan, reason=reason, failures=failures)
        case FallBack(step=step):
            saga.fall_back(journal, intent, plan, to_step=step)
        case CloseFailed(failure=failure):
            saga.close_failed(journal, intent, plan, error_category=failure.category)
        case Fail(failure=failure):
            saga.fail(
                journal,
                intent,
                plan,
                status=OutcomeStatus.FAILED,
                code=Reason.TERMINAL_FAILURE,
                error_category=failure.category,
            )
        case _:
            assert_never(action)
    return action


def _tried(
    intent: Intent, result: CallResult, *, key: str, on_unknown: OnUnknown, at: datetime
) -> FinishedAttempt:
    # Of a first attempt there is no earlier one that could be in doubt, or known to have happened.
    has_earlier = intent.attempts > 1
    is_known_done = has_earlier and calls_in_doubt.is_done_unrecorded(intent=intent, key=key)
    is_in_doubt = has_earlier and calls_in_doubt.is_call_in_doubt(intent=intent, key=key)
    return FinishedAttempt(
        result=result,
        failures=intent.failures,
        in_doubt=is_known_done or is_in_doubt,
        is_known_done=is_known_done,
        over_at=_over_at(intent, key=key, at=at),
        direction=Direction(intent.direction),
        purpose=Purpose(intent.purpose),
        on_unknown=on_unknown,
    )


def _over_at(intent: Intent, *, key: str, at: datetime) -> datetime | None:
    """When the call that a probe asks about is surely over: a call ends before its lease, whoever made it."""
    if intent.purpose != Purpose.PROBE:
        return None
    since = calls_in_doubt.get_doubtful_since(intent=intent, key=key)
    if since is None:
        return None
    over_at = since + timedelta(seconds=settings.DIR_LEASE_S)
    if boots.this_boot() is None:
        return over_at
    # A server that is alone made the call itself, and knows it by a monotonic clock.
    return max(over_at, at + timedelta(seconds=held_claims.call_left_s(key)))


def give_back(claim: Claimed, *, why: str) -> None:
    """Give a claim back uncalled: a stop was pressed between claim and call."""
    journal, intent, attempt = _reopen(claim)
    if not _is_ours(intent, attempt, claim):
        return
    _record_held(journal, intent, attempt, claim=claim, why=why)
    _wait_again(journal, intent)


def give_back_unavailable(claim: Claimed, *, jitter: float) -> Reason | None:
    """Give a claim back uncalled, since its target is unavailable; returns why a person is asked, if any.

    Only a window brings an end to that by itself. What has none counts it as a failure, and the fourth asks a
    person: what asks about a call, or undoes a step, keeps others waiting.
    """
    journal, intent, attempt = _reopen(claim)
    if not _is_ours(intent, attempt, claim):
        return None
    _record_held(journal, intent, attempt, claim=claim, why=circuit.CIRCUIT_OPEN, is_unavailable=True)
    if claim.has_window:
        _wait_again(journal, intent)
        return None
    failure = Failure(
        category=FailureCategory.TARGET_BUSY,
        failure_class=FailureClass.TRANSIENT,
        detail="the target's health path reports that it is unavailable; nothing was sent",
    )
    tried = _tried(intent, failure, key=claim.step.key, on_unknown=claim.on_unknown, at=journal.at)
    follows = execution.decide(tried, at=journal.at, jitter=jitter)
    reason = None
    if isinstance(follows, EscalateToPerson):
        reason, plan = follows.reason, IntentPlan.of(intent)
        intent_transitions.ask_person(journal, intent, plan, reason=reason, failures=follows.failures)
    elif isinstance(follows, RetryAt):
        intent_transitions.schedule_retry(intent, again=follows)
    journal.write()
    return reason


def _record_held(
    journal: Journal,
    intent: Intent,
    attempt: Attempt,
    *,
    claim: Claimed,
    why: str,
    is_unavailable: bool = False,
) -> None:
    attempt.state, attempt.finished_at = AttemptState.HELD, journal.at
    attempt.save(update_fields=["state", "finished_at"])
    if claim.later is not None:
        callbacks.close(journal, intent, number=claim.number, result=None)
    circuit.report_result(
        journal, intent, step=claim.step, number=claim.number, result=None, is_unavailable=is_unavailable
    )
    journal.add(events.IntentHeld(intent_id=str(intent.pk), why=why))


def _wait_again(journal: Journal, intent: Intent) -> None:
    """Among the waiting again, as if it had not been claimed."""
    intent_transitions.reschedule(intent, next_at=journal.at, failures=intent.failures)
    called = Attempt.objects.filter(intent=intent).exclude(state=AttemptState.HELD).exists()
    if not called:
        journal.transition(FlowState.ACCEPTED)
    journal.write()


def _reopen(claim: Claimed) -> tuple[Journal, Intent, Attempt]:
    found = locks.lock_attempt(intent_id=claim.intent_id, number=claim.number, where=claim.where)
    if found is None:
        raise LookupError("a claimed intent is never deleted")
    flow, intent, attempt = found
    return Journal(flow=flow, actor=actors.SYSTEM, at=clock.now()), intent, attempt


def _finished(*, pk: int, **columns: Any) -> tuple[QuerySet[Attempt], dict[str, Any]]:
    return Attempt.objects.filter(pk=pk, state__in=OPEN_ATTEMPTS), columns


_FINISHED: Final = statements.Change(_finished)


def _is_ours(intent: Intent, attempt: Attempt, claim: Claimed) -> bool:
    return (
        intent.state == IntentState.CLAIMED
        and intent.lease_owner == claim.owner
        and intent.attempts == claim.number
        and attempt.state == AttemptState.STARTED
    )


def note_late(journal: Journal, intent: Intent, attempt: Attempt, result: CallResult) -> bool:
    """Note an answer that came when its claim, or its wait, had ended: whoever decides is shown it.

    False where it says nothing that is not known.
    """
    # A commit whose answer was lost is written again by the same worker: then there is nothing to note.
    state, _ = _ending(result)
    if attempt.state != AttemptState.UNKNOWN or state is AttemptState.UNKNOWN:
        return False
    kept, late = None, doubts.NOTHING_NEW
    if isinstance(result, Receipt):
        # Kept outside the chain like any receipt: it is what the person who decides was looking for.
        kept = ledger.commit_payload(tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=result.body)
        by = doubts.PROBE if attempt.purpose == Purpose.PROBE else doubts.RECEIPT
        late = doubts.settle_late(journal=journal, intent=intent, by=by, key=attempt.target_key)
    journal.add(
        events.AttemptReportedLate(
            intent_id=str(intent.pk),
            number=attempt.number,
            result=state,
            receipt_commitment=kept,
            contradicts=late.contradicts or None,
        )
    )
    if late.contradicts:
        # A person has stated that it did not happen, and it did: what was done in that belief is stopped.
        # The call is on the list of calls that wait for a person (`left_calls.list_calls`). What waits to
        # run in its place waits for a person as well, or the effect would be there twice.
        journal.add(*reservations.use_up_again(intent=intent, at=journal.at))
        waiting = Intent.objects.select_for_update().filter(flow=journal.flow, state=IntentState.PENDING)
        for other in waiting.filter(direction=Direction.FORWARD).exclude(pk=intent.pk):
            intent_transitions.ask_person(
                journal,
                other,
                IntentPlan.of(other),
                reason=Reason.EFFECT_CONTRADICTED,
                failures=other.failures,
            )
    if isinstance(result, Receipt) and late.is_new:
        if intent.state not in LIVE_INTENTS:
            intent_transitions.report_late_receipt(journal, intent, receipt=result.body)
        elif intent.direction == Direction.COMPENSATE:
            saga.note_known_done(journal, intent, IntentPlan.of(intent), recorded_by=actors.SYSTEM)
    return True


def _finish(journal: Journal, attempt: Attempt, result: CallResult, *, again: RetryAt | None) -> str | None:
    """End the attempt's row; the commitment of the receipt, where there is one."""
    commitment = None
    if isinstance(result, Receipt):
        commitment = ledger.commit_payload(
            tenant=journal.flow.tenant, data_class=PayloadClass.RECEIPTS, body=result.body
        )
    state, failure = _ending(result)
    attempt.state, attempt.finished_at = state, journal.at
    attempt.status_code = result.status_code
    attempt.error_category = failure.category if failure else ""
    attempt.detail = failure.detail if failure else ""
    changed = _FINISHED.run(
        pk=attempt.pk,
        state=attempt.state,
        finished_at=attempt.finished_at,
        status_code=attempt.status_code,
        error_category=attempt.error_category,
        detail=attempt.detail,
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.AttemptFinished(
            intent_id=str(attempt.intent_id),
            number=attempt.number,
            result=state,
            error_category=failure.category if failure else None,
            status_code=result.status_code,
            receipt_commitment=commitment,
            next_at=None if again is None else again.at,
            next_purpose=None if again is None else again.purpose,
        )
    )
    return commitment


def _ending(result: CallResult) -> tuple[AttemptState, Failure | None]:
    if isinstance(result, Receipt):
        return AttemptState.SUCCEEDED, None
    if result.failure_class is FailureClass.UNKNOWN:
        return AttemptState.UNKNOWN, result
    return AttemptState.FAILED, result
