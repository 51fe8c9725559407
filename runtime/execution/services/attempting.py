"""One attempt of one intent: claim, look once more, call, record."""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar, assert_never
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from audit.sealing import own_key
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass
from runtime.contracts.states import IntentState, OutcomeStatus, Purpose
from runtime.contracts.tool import ToolDefinition
from runtime.core import clock, transactions
from runtime.execution.services import (
    calling,
    circuit,
    claiming,
    held_claims,
    lost_calls,
    recording,
    undo_windows,
)
from runtime.execution.services.callbacks import Awaited
from runtime.execution.services.claiming import Claimed, ClaimRefused
from runtime.execution.services.recording import RecordedCall, TooLate
from runtime.flows.models import Outcome
from runtime.kernel.execution import EscalateToPerson, Fail, RetryAt, Succeed
from runtime.kernel.routes import CloseFailed, FallBack
from runtime.registry.services import tools
from runtime.stops.services import call_gate

Written = TypeVar("Written")
# Between them as long as a database takes to fail over, or to be copied; then the sweeper asks a person.
RECORD_WAITS_S = (0.1, 0.3, 1.0, 3.0, 5.0, 5.0, 5.0, 5.0)
# A try may itself wait for a lock: where this process is alone, the claim stays ours so long from each try.
RECORD_TRY_S = 30.0
# A claim of several holds the rows of all while it waits for one: not for long, since each has its own.
TOGETHER_WAIT_MS = 200

_log = logging.getLogger(__name__)


class AttemptStatus(StrEnum):
    """How an attempt ended. ENDED: there was nothing to attempt, and the stored outcome is the answer.

    Of several steps: ADVANCED has done one and more follow; TURNED_BACK will not do the rest, and undoes what
    was done; COMPENSATED has undone the last of it. FELL_BACK has failed, and another step runs in its place.
    AWAITING: the step is a person's, who is asked, or its target has taken it on and reports later.
    """

    NOT_DUE = "NOT_DUE"
    HELD = "HELD"
    EXPIRED = "EXPIRED"
    BLOCKED = "BLOCKED"
    SUCCEEDED = "SUCCEEDED"
    RETRY_LATER = "RETRY_LATER"
    WITH_PERSON = "WITH_PERSON"
    AWAITING = "AWAITING"
    FAILED = "FAILED"
    ADVANCED = "ADVANCED"
    TURNED_BACK = "TURNED_BACK"
    COMPENSATED = "COMPENSATED"
    FELL_BACK = "FELL_BACK"
    REPORTED_LATE = "REPORTED_LATE"
    ENDED = "ENDED"


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """`called` tells whether the target was called; `detail` is a reason code, or empty.

    `outcome` and `receipt` (canonical JSON) are the stored ones of an intent that had ended before.
    """

    status: AttemptStatus
    called: bool
    detail: str = ""
    outcome: OutcomeStatus | None = None
    receipt: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a claim of several found of one: all that its call needs, or why there is none.

    `asked_at_s` is a moment before the claim, by the monotonic clock.
    """

    claim: Claimed | ClaimRefused
    asked_at_s: float


def attempt(intent_id: UUID, *, owner: str) -> AttemptResult:
    """Attempt an intent once. Safe to call at any time, from any number of workers.

    `owner` names the calling thread, uniquely over all processes: it is the name on the lease.

    Raises:
        transactions.BusyError: when the rows were too contended to claim; nothing has happened then.
        own_key.KeyEndedError: when the key of this process ends before a result could be recorded; the same.
    """
    own_key.require_for_call(tenant=settings.DIR_TENANT, now=clock.now)
    # Before the claim, so that what is left of the lease is never thought longer than it is.
    asked_at_s = time.monotonic()
    held_claims.note_claim(intent_id, owner=owner, until_s=asked_at_s + settings.DIR_LEASE_S)
    claim = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner=owner))
    if isinstance(claim, ClaimRefused) and claim.status == claiming.UNRELEASED:
        transactions.retry_on_conflict(lambda: undo_windows.end(intent_id))
        claim = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner=owner))
    return _carry_out(intent_id, claim, asked_at_s=asked_at_s)


def take_together(intent_ids: Sequence[UUID], *, owner: str, wait_ms: int | None = None) -> dict[UUID, Taken]:
    """Claim several intents in one transaction, each with a lease, an attempt and entries of its own.

    It waits `wait_ms` for a row that another transaction has; TOGETHER_WAIT_MS where nothing else is said.

    Their leases have begun: each is to be carried out by `finish` at once, in a thread of its own. Those that
    are not among the answers are to be attempted alone, by `attempt`: all of them where anything went wrong,
    so that no intent keeps another from being claimed.
    """
    asked_at_s = time.monotonic()
    for intent_id in intent_ids:
        held_claims.note_claim(intent_id, owner=owner, until_s=asked_at_s + settings.DIR_LEASE_S)
    try:
        own_key.require_for_call(tenant=settings.DIR_TENANT, now=clock.now)
        claims = transactions.try_once(
            lambda: claiming.claim_together(intent_ids, owner=owner),
            wait_ms=TOGETHER_WAIT_MS if wait_ms is None else wait_ms,
        )
    except Exception as error:
        # What is wrong is found again, and reported, where each is claimed alone.
        _log.info("%s intents are claimed one by one: %s", len(intent_ids), error)
        if not connection.in_atomic_block:
            connection.close()
        return {}
    return {
        intent_id: Taken(claim=claim, asked_at_s=asked_at_s)
        for intent_id, claim in claims.items()
        if isinstance(claim, Claimed) or claim.status != claiming.UNRELEASED
    }


def finish(intent_id: UUID, taken: Taken) -> AttemptResult:
    """Make the call of an intent that `take_together` has claimed, and record it, as `attempt` does."""
    return _carry_out(intent_id, taken.claim, asked_at_s=taken.asked_at_s)


def _carry_out(intent_id: UUID, claim: Claimed | ClaimRefused, *, asked_at_s: float) -> AttemptResult:
    if isinstance(claim, ClaimRefused):
        return _refused(intent_id, claim)
    jitter = random.random()  # noqa: S311  # spreads retries, guards nothing
    try:
        if claim.is_trial and _is_unavailable(claim, asked_at_s=asked_at_s):
            reason = _retry_database(claim, lambda: recording.give_back_unavailable(claim, jitter=jitter))
            if reason is None:
                return AttemptResult(status=AttemptStatus.HELD, called=False, detail=circuit.CIRCUIT_OPEN)
            return AttemptResult(status=AttemptStatus.WITH_PERSON, called=False, detail=reason.value)
        result = _call(claim, asked_at_s=asked_at_s)
    except call_gate.ClosedError as error:
        why = error.why  # the stop may have been pressed since the claim was committed
        _retry_database(claim, lambda: recording.give_back(claim, why=why))
        return AttemptResult(status=AttemptStatus.HELD, called=False, detail=why)
    for other in claim.other_tools:
        # Before the result: once the flow goes on, nothing else calls the tool.
        _retry_database(claim, partial(_quarantine, claim, other))
    return _to_result(_retry_database(claim, lambda: recording.record(claim, result, jitter=jitter)))


def _quarantine(claim: Claimed, seen: ToolDefinition | None) -> None:
    tools.note_other(tenant=claim.tenant, server=claim.step.target, name=claim.step.path, seen=seen)


def _refused(intent_id: UUID, claim: ClaimRefused) -> AttemptResult:
    """What there was to find instead of a call; a call that may have happened is put in doubt."""
    if claim.status == claiming.UNRECORDED:
        transactions.retry_on_conflict(lambda: lost_calls.put_in_doubt(intent_id))
        return AttemptResult(status=AttemptStatus.BLOCKED, called=False, detail=Reason.IN_DOUBT.value)
    # The result of the execution that was (DIR paper, 7.2); a cancelled intent has none.
    ended = claim.status == AttemptStatus.ENDED
    outcome = Outcome.objects.filter(intent_id=intent_id).first() if ended else None
    if outcome is None:
        return AttemptResult(status=AttemptStatus(claim.status), called=False, detail=claim.detail)
    return AttemptResult(
        status=AttemptStatus.ENDED,
        called=False,
        detail=outcome.error_category,
        outcome=OutcomeStatus(outcome.status),
        receipt=None if outcome.receipt is None else bytes(outcome.receipt),
    )


def _is_unavailable(claim: Claimed, *, asked_at_s: float) -> bool:
    """Ask the target how it is. That has no effect, so whatever fails here, the call was not made.

    Raises:
        call_gate.ClosedError: the question, and with it the call, was held back, or the database failed.
    """
    transactions.give_back_connection()
    lease_left_s = settings.DIR_LEASE_S - (time.monotonic() - asked_at_s)
    try:
        return calling.is_unavailable(claim, lease_left_s=lease_left_s)
    except call_gate.ClosedError:
        raise
    except (OperationalError, InterfaceError) as error:
        raise call_gate.ClosedError(call_gate.DATABASE_BUSY) from error
    except Exception:
        _log.exception("executor of intent %s crashed when it asked for the target's health", claim.intent_id)
        return True


def _call(claim: Claimed, *, asked_at_s: float) -> CallResult:
    transactions.give_back_connection()
    if claim.purpose is Purpose.CALL:
        held_claims.note_call(claim.step.key, until_s=asked_at_s + settings.DIR_LEASE_S)
    try:
        lease_left_s = settings.DIR_LEASE_S - (time.monotonic() - asked_at_s)
        return calling.call(claim, lease_left_s=lease_left_s)
    except call_gate.ClosedError:
        raise
    except Exception:
        _log.exception("executor of intent %s crashed", claim.intent_id)
        return Failure(
            category=FailureCategory.EXECUTOR_CRASHED,
            failure_class=FailureClass.UNKNOWN,
            detail="the executor failed unexpectedly",
        )


def _retry_database(claim: Claimed, write: Callable[[], Written]) -> Written:
    """Write what became of a claim, again where the database fails: losing it makes the intent IN_DOUBT."""
    for wait_s in RECORD_WAITS_S:
        held_claims.prolong(claim.intent_id, owner=claim.owner, by_s=RECORD_TRY_S)
        try:
            return transactions.retry_on_conflict(write)
        except (transactions.BusyError, OperationalError, InterfaceError):
            _log.warning("the result of intent %s could not be written; retrying", claim.intent_id)
            if not connection.in_atomic_block:
                connection.close()
            time.sleep(wait_s)
    return transactions.retry_on_conflict(write)


def _to_result(recorded: RecordedCall | TooLate | Awaited) -> AttemptResult:
    if isinstance(recorded, TooLate):
        return AttemptResult(status=AttemptStatus.REPORTED_LATE, called=True)
    if isinstance(recorded, Awaited):
        return AttemptResult(status=AttemptStatus.AWAITING, called=True)
    goes_on = recorded.state is IntentState.PENDING
    match recorded.action:
        case Succeed():
            ended = (
                AttemptStatus.SUCCEEDED if recorded.state is IntentState.DONE else AttemptStatus.COMPENSATED
            )
            return AttemptResult(status=AttemptStatus.ADVANCED if goes_on else ended, called=True)
        case RetryAt():
            return AttemptResult(status=AttemptStatus.RETRY_LATER, called=True)
        case FallBack(step=step):
            return AttemptResult(status=AttemptStatus.FELL_BACK, called=True, detail=step)
        case EscalateToPerson(reason=reason):
            return AttemptResult(status=AttemptStatus.WITH_PERSON, called=True, detail=reason.value)
        case CloseFailed(failure=failure):
            return AttemptResult(status=AttemptStatus.FAILED, called=True, detail=failure.category.value)
        case Fail(failure=failure):
            status = AttemptStatus.TURNED_BACK if goes_on else AttemptStatus.FAILED
            return AttemptResult(status=status, called=True, detail=failure.category.value)
        case _:
            assert_never(recorded.action)
