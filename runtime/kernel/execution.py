"""From the result of a call to the one thing that follows; time and chance are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from runtime.contracts.outcome import Deviation, FactChange
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import Direction, Purpose
from runtime.kernel import backoff, predicted, redaction

# "More than 3 times": the fourth operational failure calls a person (DIR paper, 9).
FAILURES_TO_PERSON = 4


@dataclass(frozen=True, kw_only=True)
class Succeed:
    """The target has done it, and this is its receipt."""

    receipt: Receipt


@dataclass(frozen=True, kw_only=True)
class RetryAt:
    """The same key again, not before `at`; as a PROBE the target is first asked what became of it."""

    at: datetime
    failures: int
    purpose: Purpose = Purpose.CALL


@dataclass(frozen=True, kw_only=True)
class EscalateToPerson:
    """IN_DOUBT, REPEATED_FAILURE, COMPENSATION_FAILED or ROUTED: a person says what is true, or worth it."""

    reason: Reason
    failures: int


@dataclass(frozen=True, kw_only=True)
class Fail:
    """The target will never do it."""

    failure: Failure


Action = Succeed | RetryAt | EscalateToPerson | Fail


@dataclass(frozen=True, kw_only=True)
class FinishedAttempt:
    """One attempt that has ended: what for, what it came to, and what is known of those before it.

    `failures` counts the operational failures before it. `in_doubt` says that an earlier call under this key
    ended unknown and nothing has settled it since; `over_at` is when the last such call is surely over. None
    of a PROBE says that it is. `is_known_done` says that a receipt for this key came too late for the walk to
    go on from it. `on_unknown` is PROBE only where the call can be probed.
    """

    result: CallResult
    failures: int
    in_doubt: bool = False
    is_known_done: bool = False
    over_at: datetime | None = None
    direction: Direction = Direction.FORWARD
    purpose: Purpose = Purpose.CALL
    on_unknown: OnUnknown = OnUnknown.PERSON


def decide(tried: FinishedAttempt, *, at: datetime, jitter: float) -> Action:
    """What follows an attempt, at the moment `at`.

    By default an unknown result is never tried again by the runtime: the same key at a target that forgets
    keys would be a second effect. The kind may say otherwise of its targets. A refusal does not tell what
    became of an earlier call that is in doubt, so it is not a failure yet.
    """
    result = tried.result
    if isinstance(result, Receipt):
        return Succeed(receipt=result)
    if tried.purpose is Purpose.PROBE:
        return _after_probe(tried, result, at=at, jitter=jitter)
    match result.failure_class:
        case FailureClass.TERMINAL:
            if tried.in_doubt:
                return EscalateToPerson(reason=Reason.IN_DOUBT, failures=tried.failures)
            if tried.direction is Direction.COMPENSATE:
                return EscalateToPerson(reason=Reason.COMPENSATION_FAILED, failures=tried.failures)
            return Fail(failure=result)
        case FailureClass.UNKNOWN:
            return _after_unknown(tried, result, at=at, jitter=jitter)
        case FailureClass.TRANSIENT:
            # Why a person is asked at the fourth failure; a doubt weighs more than the failures after it.
            reason = Reason.REPEATED_FAILURE
            if tried.in_doubt:
                reason = Reason.IN_DOUBT
            elif tried.direction is Direction.COMPENSATE:
                reason = Reason.COMPENSATION_FAILED
            return again(failure=result, failures=tried.failures, at=at, jitter=jitter, reason=reason)
        case _:
            assert_never(result.failure_class)


def _after_unknown(tried: FinishedAttempt, result: Failure, *, at: datetime, jitter: float) -> Action:
    match tried.on_unknown:
        case OnUnknown.PERSON:
            return EscalateToPerson(reason=Reason.IN_DOUBT, failures=tried.failures)
        case OnUnknown.RESEND:
            purpose = Purpose.CALL
        case OnUnknown.PROBE:
            purpose = Purpose.PROBE
        case _:
            assert_never(tried.on_unknown)
    return again(
        failure=result,
        failures=tried.failures,
        at=at,
        jitter=jitter,
        reason=Reason.IN_DOUBT,
        purpose=purpose,
    )


def _after_probe(tried: FinishedAttempt, result: Failure, *, at: datetime, jitter: float) -> Action:
    """A target that knows nothing of the key has done nothing: the call goes out again, as a first one.

    While the call in doubt may still be on its way, nothing is settled: it could arrive after the answer.
    Where a receipt says that it has happened, the target contradicts itself, and a person is asked.
    """
    if result.category is FailureCategory.NOT_HAPPENED:
        if tried.is_known_done:
            return EscalateToPerson(reason=Reason.IN_DOUBT, failures=tried.failures)
        if tried.over_at is not None and at < tried.over_at:
            return RetryAt(at=tried.over_at, failures=tried.failures, purpose=Purpose.PROBE)
        return RetryAt(at=at, failures=tried.failures)
    return again(
        failure=result,
        failures=tried.failures,
        at=at,
        jitter=jitter,
        reason=Reason.IN_DOUBT,
        purpose=Purpose.PROBE,
    )


def is_settled_by_probe(tried: FinishedAttempt, action: Action) -> bool:
    """Whether the target was asked and has surely not done it: the call is a failure like any other now."""
    if tried.purpose is not Purpose.PROBE or not isinstance(action, RetryAt):
        return False
    return action.purpose is Purpose.CALL


def again(
    *,
    failure: Failure,
    failures: int,
    at: datetime,
    jitter: float,
    reason: Reason = Reason.REPEATED_FAILURE,
    purpose: Purpose = Purpose.CALL,
) -> RetryAt | EscalateToPerson:
    """The next try after `failures` earlier operational failures and this one; the fourth asks a person."""
    failed = failures + 1
    if failed >= FAILURES_TO_PERSON:
        return EscalateToPerson(reason=reason, failures=failed)
    wait_s = backoff.delay_s(failures=failed, jitter=jitter, retry_after_s=failure.retry_after_s)
    later = at + timedelta(milliseconds=round(wait_s * 1000))
    return RetryAt(at=later, failures=failed, purpose=purpose)


def deviations(
    *, expected: Sequence[Any], receipt: Mapping[str, Any], written: Sequence[FactChange] = ()
) -> tuple[Deviation, ...]:
    """Expected effects that the receipt, or a fact taken from it, contradicts, in their order.

    An expectation is `{fact, proposed}` (or `{fact, value}`); the receipt speaks of a fact under its whole
    path or its last segment. What the receipt is silent about, or what was redacted in it, is no deviation:
    it may well be true. Neither is a fact that changed by as much as was expected from another value than was
    seen.
    """
    found = []
    for effect in predicted.compare(expected=expected, written=written):
        fact, wanted = effect.fact, effect.proposed
        name = fact if fact in receipt else fact.rpartition(".")[2]
        if effect.standing is predicted.Standing.DEVIATES:
            found.append(Deviation(fact=fact, expected=wanted, observed=effect.after))
        elif (
            effect.standing is predicted.Standing.NOT_OBSERVED
            and name in receipt
            and receipt[name] != wanted
            and not redaction.is_marker(receipt[name])
        ):
            found.append(Deviation(fact=fact, expected=wanted, observed=receipt[name]))
    return tuple(found)
