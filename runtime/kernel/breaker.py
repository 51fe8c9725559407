"""The circuit breaker of one target: when it is called, when it is left alone, and by whom.

CLOSED lets every call through. So many failures in a row, over all intents, make it OPEN: nobody calls for a
time that doubles with each opening. After it exactly one claim gets the HALF_OPEN probe, on a lease; what
comes of that one call closes the circuit or opens it for longer. Time is given; nothing here waits.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from runtime.contracts.receipt import CallResult, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import CircuitState
from runtime.kernel import backoff


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`failures` in a row open it, for `first_s` seconds, at most `longest_s`; a probe has `lease_s`."""

    failures: int
    first_s: float
    longest_s: float
    lease_s: float


@dataclass(frozen=True, kw_only=True)
class CircuitSnapshot:
    """A circuit as it stands. `retry_at` is None while it is CLOSED; `probe` is the claim that holds it."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    openings: int = 0
    retry_at: datetime | None = None
    probe: str = ""


CLOSED = CircuitSnapshot()


@dataclass(frozen=True)
class Allow:
    """Call: the circuit is closed."""


@dataclass(frozen=True)
class WaitUntil:
    """Do not call before `until`."""

    until: datetime


@dataclass(frozen=True)
class Trial:
    """Call, as the only one: `circuit` must be taken before, and whoever loses that race must not call."""

    circuit: CircuitSnapshot


Admission = Allow | WaitUntil | Trial


class Signal(StrEnum):
    """What a result says about the target: it works, it fails, or nothing (the call never reached it)."""

    WORKS = "WORKS"
    FAILS = "FAILS"
    NO_SIGNAL = "NO_SIGNAL"


# Our own side of the call: the target was not asked.
_UNASKED = frozenset(
    {
        FailureCategory.TARGET_UNKNOWN,
        FailureCategory.SECRET_MISSING,
        FailureCategory.EGRESS_REFUSED,
        FailureCategory.REQUEST_INVALID,
        FailureCategory.LEASE_ENDED,
        FailureCategory.CALLBACK_UNAVAILABLE,
    }
)


def admit(circuit: CircuitSnapshot, *, probe: str, at: datetime, bounds: Settings) -> Admission:
    """Whether the claim named `probe` may call at `at`. A lost probe is given anew when its lease ends."""
    if circuit.retry_at is None:
        return Allow()
    if at < circuit.retry_at:
        return WaitUntil(until=circuit.retry_at)
    lease_until = at + timedelta(seconds=bounds.lease_s)
    return Trial(replace(circuit, state=CircuitState.HALF_OPEN, retry_at=lease_until, probe=probe))


def on_result(
    circuit: CircuitSnapshot, signal: Signal, *, probe: str, at: datetime, bounds: Settings
) -> CircuitSnapshot:
    """The circuit after a call of the claim named `probe`; the same object where nothing is to be written.

    While the circuit is not CLOSED only its own probe counts: an answer to a call of before says nothing
    about the target as it is now.
    """
    match circuit.state:
        case CircuitState.CLOSED:
            if signal is Signal.FAILS:
                counted = replace(circuit, failures=circuit.failures + 1)
                too_many = counted.failures >= bounds.failures
                return _opened(counted, at=at, bounds=bounds) if too_many else counted
            return circuit if signal is Signal.NO_SIGNAL or not circuit.failures else CLOSED
        case CircuitState.OPEN:
            return circuit
        case CircuitState.HALF_OPEN if probe != circuit.probe:
            return circuit
        case CircuitState.HALF_OPEN:
            match signal:
                case Signal.WORKS:
                    return CLOSED
                case Signal.FAILS:
                    return _opened(replace(circuit, failures=circuit.failures + 1), at=at, bounds=bounds)
                case Signal.NO_SIGNAL:
                    # The probe did not reach the target: the next claim may try at once.
                    return replace(circuit, state=CircuitState.OPEN, retry_at=at, probe="")
                case _:
                    assert_never(signal)
        case _:
            assert_never(circuit.state)


def signal_of(result: CallResult) -> Signal:
    """A refusal for good (a 4xx) is the target at work; refusals for now and unknown results are failures."""
    if isinstance(result, Receipt):
        return Signal.WORKS
    if result.category in _UNASKED:
        return Signal.NO_SIGNAL
    return Signal.WORKS if result.failure_class is FailureClass.TERMINAL else Signal.FAILS


def _opened(circuit: CircuitSnapshot, *, at: datetime, bounds: Settings) -> CircuitSnapshot:
    openings = circuit.openings + 1
    wait_s = backoff.doubled_s(times=openings, first_s=bounds.first_s, longest_s=bounds.longest_s)
    until = at + timedelta(seconds=wait_s)
    return replace(circuit, state=CircuitState.OPEN, openings=openings, retry_at=until, probe="")
