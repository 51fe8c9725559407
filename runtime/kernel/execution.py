"""From the result of a call to the one thing that follows; time and chance are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from runtime.contracts.outcome import Deviation
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureClass, Receipt
from runtime.kernel import backoff

# "More than 3 times": the fourth operational failure calls a person (DIR paper, 9).
FAILURES_TO_PERSON = 4


@dataclass(frozen=True, kw_only=True)
class Succeed:
    """The target has done it, and this is its receipt."""

    receipt: Receipt


@dataclass(frozen=True, kw_only=True)
class RetryAt:
    """The same key again, not before `at`."""

    at: datetime
    failures: int


@dataclass(frozen=True, kw_only=True)
class GiveToPerson:
    """IN_DOUBT, REPEATED_FAILURE or ROUTED: only a person knows what is true, or what is worth it."""

    reason: Reason
    failures: int


@dataclass(frozen=True, kw_only=True)
class Fail:
    """The target will never do it."""

    failure: Failure


Action = Succeed | RetryAt | GiveToPerson | Fail


def decide(*, result: CallResult, failures: int, in_doubt: bool, at: datetime, jitter: float) -> Action:
    """What follows `result`, after `failures` earlier operational failures, at the moment `at`.

    An unknown result is never tried again by the runtime: the same key at a target that forgets keys would
    be a second effect. `in_doubt` says that an earlier attempt ended unknown: a refusal now does not tell
    what became of that one, so it is not a failure yet.
    """
    if isinstance(result, Receipt):
        return Succeed(receipt=result)
    match result.failure_class:
        case FailureClass.TERMINAL:
            if in_doubt:
                return GiveToPerson(reason=Reason.IN_DOUBT, failures=failures)
            return Fail(failure=result)
        case FailureClass.UNKNOWN:
            return GiveToPerson(reason=Reason.IN_DOUBT, failures=failures)
        case FailureClass.TRANSIENT:
            return again(failure=result, failures=failures, at=at, jitter=jitter)
        case _:
            assert_never(result.failure_class)


def again(*, failure: Failure, failures: int, at: datetime, jitter: float) -> RetryAt | GiveToPerson:
    """The next try after `failures` earlier operational failures and this one; the fourth asks a person."""
    failed = failures + 1
    if failed >= FAILURES_TO_PERSON:
        return GiveToPerson(reason=Reason.REPEATED_FAILURE, failures=failed)
    wait_s = backoff.delay_s(failures=failed, jitter=jitter, retry_after_s=failure.retry_after_s)
    return RetryAt(at=at + timedelta(milliseconds=round(wait_s * 1000)), failures=failed)


def deviations(*, expected: Sequence[Any], receipt: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """Expected effects that the receipt contradicts, in the order they were expected.

    An expectation is `{fact, proposed}` (or `{fact, value}`); the receipt speaks of a fact under its whole
    path or its last segment. What the receipt is silent about is no deviation: it may well be true.
    """
    found = []
    for effect in expected:
        if not isinstance(effect, Mapping) or not isinstance(effect.get("fact"), str):
            continue
        fact = effect["fact"]
        wanted = effect.get("proposed", effect.get("value"))
        name = fact if fact in receipt else fact.rpartition(".")[2]
        if name in receipt and receipt[name] != wanted:
            found.append(Deviation(fact=fact, expected=wanted, observed=receipt[name]))
    return tuple(found)
