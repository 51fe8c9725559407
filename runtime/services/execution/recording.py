"""The record of a call: one transaction, written only by the worker that still holds the claim."""

from dataclasses import dataclass
from typing import assert_never

from audit import events, ledger
from runtime.contracts.receipt import CallResult, Failure, FailureClass, Receipt
from runtime.contracts.states import AttemptState, FlowState, IntentState
from runtime.kernel import execution
from runtime.kernel.execution import Action, Fail, GiveToPerson, RetryAt, Succeed
from runtime.models import Attempt, Intent
from runtime.queries import clock, intents
from runtime.services import locks, races
from runtime.services.execution import breaking, endings
from runtime.services.execution.claiming import SYSTEM, Claimed
from runtime.services.journal import Journal


@dataclass(frozen=True)
class Late:
    """The claim had ended before the answer came: what it says is noted, and changes nothing."""


Recorded = Action | Late


def record(claim: Claimed, result: CallResult, *, jitter: float) -> Recorded:
    """Record what came of a call, inside the caller's transaction."""
    journal, intent, attempt = _reopen(claim)
    if not _is_ours(intent, attempt, claim):
        return _note_late(journal, intent, attempt, result)
    breaking.report(journal, intent, step=claim.step, number=claim.number, result=result)
    in_doubt = intents.is_in_doubt(intent=intent)
    action = execution.decide(
        result=result, failures=intent.failures, in_doubt=in_doubt, at=journal.at, jitter=jitter
    )
    match action:
        case Succeed(receipt=receipt):
            _succeed(journal, intent, attempt, receipt)
        case RetryAt():
            _finish(journal, attempt, result, next_at=action)
            endings.put_back(intent, next_at=action.at, failures=action.failures)
        case GiveToPerson(reason=reason, failures=failures):
            _finish(journal, attempt, result)
            endings.ask_person(journal, intent, reason=reason, failures=failures)
        case Fail(failure=failure):
            _finish(journal, attempt, result)
            endings.abort_terminal(journal, intent, error_category=failure.category)
        case _:
            assert_never(action)
    journal.write()
    return action


def hold(claim: Claimed, *, why: str) -> None:
    """Give a claim back uncalled: a stop was pressed between the claim and the call."""
    journal, intent, attempt = _reopen(claim)
    if not _is_ours(intent, attempt, claim):
        return
    attempt.state, attempt.finished_at = AttemptState.HELD, journal.at
    attempt.save(update_fields=["state", "finished_at"])
    endings.put_back(intent, next_at=journal.at, failures=intent.failures)
    breaking.report(journal, intent, step=claim.step, number=claim.number, result=None)
    journal.add(events.IntentHeld(intent_id=str(intent.pk), why=why))
    called = Attempt.objects.filter(intent=intent).exclude(state=AttemptState.HELD).exists()
    if not called:
        journal.move(FlowState.ACCEPTED)
    journal.write()


def _reopen(claim: Claimed) -> tuple[Journal, Intent, Attempt]:
    found = locks.lock_intent(intent_id=claim.intent_id)
    if found is None:
        raise LookupError("a claimed intent is never deleted")
    flow, intent = found
    attempt = Attempt.objects.get(intent=intent, number=claim.number)
    return Journal(flow=flow, actor=SYSTEM, at=clock.now()), intent, attempt


def _is_ours(intent: Intent, attempt: Attempt, claim: Claimed) -> bool:
    return (
        intent.state == IntentState.CLAIMED
        and intent.lease_owner == claim.owner
        and intent.attempts == claim.number
        and attempt.state == AttemptState.STARTED
    )


def _note_late(journal: Journal, intent: Intent, attempt: Attempt, result: CallResult) -> Late:
    # A commit whose answer was lost is written again by the same worker: then there is nothing to note.
    state, _ = _ending(result)
    if attempt.state == AttemptState.UNKNOWN and state is not AttemptState.UNKNOWN:
        # Kept outside the chain like any receipt: it is what the person who decides was looking for.
        kept = (
            ledger.commit_payload(tenant=intent.tenant, body=result.body)
            if isinstance(result, Receipt)
            else None
        )
        journal.add(
            events.AttemptReportedLate(
                intent_id=str(intent.pk), number=attempt.number, result=state, receipt_commitment=kept
            )
        )
        journal.write()
    return Late()


def _succeed(journal: Journal, intent: Intent, attempt: Attempt, receipt: Receipt) -> None:
    commitment = ledger.commit_payload(tenant=intent.tenant, body=receipt.body)
    _finish(journal, attempt, receipt, receipt_commitment=commitment)
    endings.close(
        journal,
        intent,
        receipt=receipt.body,
        receipt_commitment=commitment,
        recorded_by=SYSTEM,
    )


def _finish(
    journal: Journal,
    attempt: Attempt,
    result: CallResult,
    *,
    receipt_commitment: str | None = None,
    next_at: RetryAt | None = None,
) -> None:
    state, failure = _ending(result)
    attempt.state, attempt.finished_at = state, journal.at
    attempt.status_code = result.status_code
    attempt.error_category = failure.category if failure else ""
    attempt.detail = failure.detail if failure else ""
    changed = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.STARTED).update(
        state=attempt.state,
        finished_at=attempt.finished_at,
        status_code=attempt.status_code,
        error_category=attempt.error_category,
        detail=attempt.detail,
    )
    if changed != 1:
        raise races.LostRaceError
    journal.add(
        events.AttemptFinished(
            intent_id=str(attempt.intent_id),
            number=attempt.number,
            result=state,
            error_category=failure.category if failure else None,
            status_code=result.status_code,
            receipt_commitment=receipt_commitment,
            next_at=next_at.at if next_at else None,
        )
    )


def _ending(result: CallResult) -> tuple[AttemptState, Failure | None]:
    if isinstance(result, Receipt):
        return AttemptState.SUCCEEDED, None
    if result.failure_class is FailureClass.UNKNOWN:
        return AttemptState.UNKNOWN, result
    return AttemptState.FAILED, result
