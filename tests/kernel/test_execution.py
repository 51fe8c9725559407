from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import Direction, Purpose
from runtime.kernel import execution
from runtime.kernel.execution import EscalateToPerson, Fail, FinishedAttempt, RetryAt, Succeed

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RECEIPT = Receipt(status_code=200, body=b"{}")


def failure(failure_class: FailureClass, *, retry_after_s: float | None = None) -> Failure:
    return Failure(
        category=FailureCategory.TARGET_ERROR,
        failure_class=failure_class,
        detail="it failed",
        retry_after_s=retry_after_s,
    )


def decide(result: Receipt | Failure, **known: Any) -> execution.Action:
    return execution.decide(FinishedAttempt(result=result, **{"failures": 0, **known}), at=AT, jitter=0.0)


@pytest.mark.parametrize("in_doubt", [True, False])
def test_a_receipt_succeeds(in_doubt: bool) -> None:
    assert decide(RECEIPT, failures=3, in_doubt=in_doubt) == Succeed(receipt=RECEIPT)


def test_a_transient_failure_is_tried_again_later() -> None:
    assert decide(failure(FailureClass.TRANSIENT)) == RetryAt(at=AT + timedelta(milliseconds=500), failures=1)


def test_a_targets_wait_is_kept() -> None:
    action = decide(failure(FailureClass.TRANSIENT, retry_after_s=5.0))
    assert action == RetryAt(at=AT + timedelta(seconds=5), failures=1)


def test_the_fourth_failure_calls_a_person() -> None:
    assert isinstance(decide(failure(FailureClass.TRANSIENT), failures=2), RetryAt)
    assert decide(failure(FailureClass.TRANSIENT), failures=3) == EscalateToPerson(
        reason=Reason.REPEATED_FAILURE, failures=4
    )


def test_a_terminal_failure_fails() -> None:
    refused = failure(FailureClass.TERMINAL)
    assert decide(refused) == Fail(failure=refused)


def test_a_refusal_does_not_settle_an_earlier_doubt() -> None:
    assert decide(failure(FailureClass.TERMINAL), in_doubt=True) == EscalateToPerson(
        reason=Reason.IN_DOUBT, failures=0
    )


@given(failures=st.integers(0, 100), in_doubt=st.booleans())
def test_an_unknown_result_is_never_tried_again(failures: int, in_doubt: bool) -> None:
    action = decide(failure(FailureClass.UNKNOWN), failures=failures, in_doubt=in_doubt)
    assert action == EscalateToPerson(reason=Reason.IN_DOUBT, failures=failures)


def test_failures_after_a_doubt_leave_the_doubt() -> None:
    assert decide(failure(FailureClass.TRANSIENT), failures=3, in_doubt=True) == EscalateToPerson(
        reason=Reason.IN_DOUBT, failures=4
    )


@pytest.mark.parametrize(
    ("failure_class", "failures", "found"),
    [
        (FailureClass.TERMINAL, 0, EscalateToPerson(reason=Reason.COMPENSATION_FAILED, failures=0)),
        (FailureClass.TRANSIENT, 3, EscalateToPerson(reason=Reason.COMPENSATION_FAILED, failures=4)),
        (FailureClass.UNKNOWN, 1, EscalateToPerson(reason=Reason.IN_DOUBT, failures=1)),
    ],
)
def test_what_cannot_be_undone_calls_a_person(
    failure_class: FailureClass, failures: int, found: EscalateToPerson
) -> None:
    assert decide(failure(failure_class), failures=failures, direction=Direction.COMPENSATE) == found


@pytest.mark.parametrize(
    ("on_unknown", "purpose"), [(OnUnknown.RESEND, Purpose.CALL), (OnUnknown.PROBE, Purpose.PROBE)]
)
def test_a_kind_may_say_what_follows_an_unknown_result(on_unknown: OnUnknown, purpose: Purpose) -> None:
    lost = failure(FailureClass.UNKNOWN)
    assert decide(lost, on_unknown=on_unknown) == RetryAt(
        at=AT + timedelta(milliseconds=500), failures=1, purpose=purpose
    )
    assert decide(lost, failures=3, on_unknown=on_unknown) == EscalateToPerson(
        reason=Reason.IN_DOUBT, failures=4
    )


ABSENT = Failure(category=FailureCategory.NOT_HAPPENED, failure_class=FailureClass.TERMINAL, detail="nothing")


def probe(result: Receipt | Failure, *, failures: int = 1, **known: Any) -> execution.Action:
    given = {"in_doubt": True, "purpose": Purpose.PROBE, "on_unknown": OnUnknown.PROBE, **known}
    return decide(result, failures=failures, **given)


def test_what_a_probe_finds_is_the_receipt() -> None:
    assert probe(RECEIPT) == Succeed(receipt=RECEIPT)


def test_what_a_probe_does_not_find_is_sent_again_at_once() -> None:
    assert probe(ABSENT, failures=3) == RetryAt(at=AT, failures=3, purpose=Purpose.CALL)
    assert probe(ABSENT, over_at=AT) == RetryAt(at=AT, failures=1, purpose=Purpose.CALL)


def test_what_a_probe_does_not_find_though_its_receipt_came_is_for_a_person() -> None:
    over_at = AT + timedelta(seconds=1)
    for known in ({}, {"over_at": over_at}):
        assert probe(ABSENT, failures=1, is_known_done=True, **known) == EscalateToPerson(
            reason=Reason.IN_DOUBT, failures=1
        )
    assert probe(RECEIPT, is_known_done=True) == Succeed(receipt=RECEIPT)


def test_a_call_that_may_still_arrive_is_asked_about_again_when_it_is_over() -> None:
    over_at = AT + timedelta(milliseconds=1)
    assert probe(ABSENT, failures=3, over_at=over_at) == RetryAt(
        at=over_at, failures=3, purpose=Purpose.PROBE
    )
    assert probe(RECEIPT, over_at=over_at) == Succeed(receipt=RECEIPT)


@pytest.mark.parametrize("failure_class", list(FailureClass))
def test_a_probe_that_tells_nothing_is_asked_again_and_then_a_person(failure_class: FailureClass) -> None:
    silent = failure(failure_class)
    assert probe(silent) == RetryAt(at=AT + timedelta(seconds=1), failures=2, purpose=Purpose.PROBE)
    assert probe(silent, failures=3) == EscalateToPerson(reason=Reason.IN_DOUBT, failures=4)


@pytest.mark.parametrize(
    ("expected", "receipt", "found"),
    [
        ([], {"status": "FILLED"}, []),
        ([{"fact": "order.status", "current": None, "proposed": "FILLED"}], {"status": "FILLED"}, []),
        ([{"fact": "order.status", "proposed": "FILLED"}], {}, []),
        ([{"fact": "order.status", "proposed": "FILLED"}], {"status": "PART"}, [("FILLED", "PART")]),
        ([{"fact": "order.status", "value": 1}], {"order.status": 2, "status": 1}, [(1, 2)]),
        (["a sentence", {"effect": "none"}, {"fact": 7}], {"status": "PART"}, []),
    ],
)
def test_deviations_are_what_the_receipt_contradicts(
    expected: list[Any], receipt: dict[str, Any], found: list[tuple[Any, Any]]
) -> None:
    deviations = execution.deviations(expected=expected, receipt=receipt)
    assert [(one.expected, one.observed) for one in deviations] == found
