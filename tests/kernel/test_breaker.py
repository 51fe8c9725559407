"""The circuit of a target, over times that are given."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runtime.contracts.receipt import Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import CircuitState
from runtime.kernel import backoff, breaker
from runtime.kernel.breaker import CLOSED, Allow, CircuitSnapshot, Signal, Trial, WaitUntil

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
BOUNDS = breaker.Settings(failures=3, first_s=5, longest_s=12, lease_s=30)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def on_result(
    circuit: CircuitSnapshot, signal: Signal, *, probe: str = "a/1", at: datetime = NOW
) -> CircuitSnapshot:
    return breaker.on_result(circuit, signal, probe=probe, at=at, bounds=BOUNDS)


def opened(openings: int = 1) -> CircuitSnapshot:
    return CircuitSnapshot(state=CircuitState.OPEN, failures=3, openings=openings, retry_at=after(5))


def half_open(openings: int = 1) -> CircuitSnapshot:
    found = breaker.admit(opened(openings), probe="a/1", at=after(5), bounds=BOUNDS)
    assert isinstance(found, Trial)
    return found.circuit


def failure(category: FailureCategory, failure_class: FailureClass) -> Failure:
    return Failure(category=category, failure_class=failure_class, detail="trial")


def test_a_closed_circuit_lets_every_call_through() -> None:
    assert breaker.admit(CLOSED, probe="a/1", at=NOW, bounds=BOUNDS) == Allow()
    assert breaker.admit(replace(CLOSED, failures=2), probe="a/1", at=NOW, bounds=BOUNDS) == Allow()


def test_the_last_of_so_many_failures_in_a_row_opens_it() -> None:
    circuit = on_result(on_result(CLOSED, Signal.FAILS), Signal.FAILS)
    assert circuit == CircuitSnapshot(failures=2)
    circuit = on_result(circuit, Signal.FAILS)
    assert circuit == opened()
    assert breaker.admit(circuit, probe="a/1", at=after(4.9), bounds=BOUNDS) == WaitUntil(until=after(5))


def test_a_success_between_forgets_the_failures() -> None:
    assert on_result(CircuitSnapshot(failures=2), Signal.WORKS) == CLOSED
    assert on_result(CLOSED, Signal.WORKS) is CLOSED


def test_what_never_reached_the_target_says_nothing_about_it() -> None:
    counted = CircuitSnapshot(failures=2)
    assert on_result(counted, Signal.NO_SIGNAL) is counted


def test_one_claim_gets_the_probe_and_the_others_wait_for_the_end_of_its_lease() -> None:
    circuit = half_open()
    assert (circuit.state, circuit.probe, circuit.retry_at) == (CircuitState.HALF_OPEN, "a/1", after(35))
    assert breaker.admit(circuit, probe="b/1", at=after(6), bounds=BOUNDS) == WaitUntil(until=after(35))


def test_a_lost_probe_is_given_anew_when_its_lease_ends() -> None:
    found = breaker.admit(half_open(), probe="b/1", at=after(35), bounds=BOUNDS)
    assert isinstance(found, Trial)
    assert (found.circuit.probe, found.circuit.retry_at) == ("b/1", after(65))
    assert on_result(found.circuit, Signal.WORKS, probe="a/1") is found.circuit


def test_the_probe_closes_it_or_opens_it_for_twice_as_long_up_to_a_cap() -> None:
    assert on_result(half_open(), Signal.WORKS) == CLOSED
    again = on_result(half_open(), Signal.FAILS)
    assert (again.state, again.openings, again.retry_at, again.probe) == (
        CircuitState.OPEN,
        2,
        after(10),
        "",
    )
    assert on_result(half_open(2), Signal.FAILS).retry_at == after(12)
    assert backoff.doubled_s(times=5000, first_s=5, longest_s=12) == 12


def test_a_probe_that_was_not_made_leaves_its_place_to_the_next_claim() -> None:
    circuit = on_result(half_open(), Signal.NO_SIGNAL, at=after(6))
    assert (circuit.state, circuit.openings, circuit.probe) == (CircuitState.OPEN, 1, "")
    assert isinstance(breaker.admit(circuit, probe="b/1", at=after(6), bounds=BOUNDS), Trial)


@pytest.mark.parametrize("signal", Signal)
def test_answers_to_calls_of_before_are_not_heard_while_it_is_open(signal: Signal) -> None:
    circuit = opened()
    assert on_result(circuit, signal) is circuit


def test_what_a_result_says_about_the_target() -> None:
    told = breaker.signal_of
    assert told(Receipt(status_code=200, body=b"{}")) is Signal.WORKS
    assert told(failure(FailureCategory.TARGET_REFUSED, FailureClass.TERMINAL)) is Signal.WORKS
    assert told(failure(FailureCategory.TARGET_BUSY, FailureClass.TRANSIENT)) is Signal.FAILS
    assert told(failure(FailureCategory.TIMED_OUT, FailureClass.UNKNOWN)) is Signal.FAILS


@pytest.mark.parametrize("failure_class", FailureClass)
def test_a_call_that_never_went_out_says_nothing_about_the_target(failure_class: FailureClass) -> None:
    silent = {
        item
        for item in FailureCategory
        if breaker.signal_of(failure(item, failure_class)) is Signal.NO_SIGNAL
    }
    assert silent == {
        FailureCategory.TARGET_UNKNOWN,
        FailureCategory.SECRET_MISSING,
        FailureCategory.EGRESS_REFUSED,
        FailureCategory.REQUEST_INVALID,
        FailureCategory.LEASE_ENDED,
        FailureCategory.CALLBACK_UNAVAILABLE,
    }
