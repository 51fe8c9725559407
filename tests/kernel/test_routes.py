"""Routes after the call: which one is taken, and what follows in place of what would have."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.contracts.policy_kind import OnUnknown, Route, RouteAction
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import Direction, Purpose
from runtime.kernel import execution, routes
from runtime.kernel.execution import EscalateToPerson, Fail, FinishedAttempt, RetryAt, Succeed
from runtime.kernel.routes import CloseFailed, FallBack, RouteChoice, RouteResult

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
RECEIPT = Receipt(status_code=201, body=b'{"order_id":"o1"}')
REFUSED = Failure(
    category=FailureCategory.TARGET_REFUSED,
    failure_class=FailureClass.TERMINAL,
    detail="refused",
    status_code=422,
)
BUSY = Failure(
    category=FailureCategory.TARGET_BUSY, failure_class=FailureClass.TRANSIENT, detail="busy", status_code=503
)
NOTHING_DONE = Failure(
    category=FailureCategory.NOT_HAPPENED, failure_class=FailureClass.TERMINAL, detail="no", status_code=404
)
LOST = Failure(category=FailureCategory.TIMED_OUT, failure_class=FailureClass.UNKNOWN, detail="lost")
A = RouteAction


def route(action: RouteAction, when: str = "true", step: str | None = None) -> Route:
    return Route(when=when, action=action, step=step)


def choose(
    *given: Route, result: RouteResult = RouteResult.FAILED, fallbacks: tuple[str, ...] = ("spare",)
) -> RouteChoice:
    names = {
        "outcome": routes.outcome(result=REFUSED, step="order", attempts=2, failures=1),
        "receipt": {},
        "params": {"quantity": 3},
    }
    return routes.choose(given, names=names, result=result, fallbacks=fallbacks)


def follow(action: RouteAction, result: CallResult, *, failures: int = 0) -> Any:
    decided = execution.decide(FinishedAttempt(result=result, failures=failures), at=NOW, jitter=0.0)
    return routes.follow(
        route(action, step="spare"), action=decided, result=result, failures=failures, at=NOW, jitter=0.0
    )


def test_the_first_route_that_fits_is_taken() -> None:
    chosen = choose(
        route(A.CLOSE, "outcome.status_code == 404"),
        route(A.ESCALATE, "outcome.error_category == 'TARGET_REFUSED' && params.quantity > 2"),
        route(A.CLOSE),
    )
    assert (chosen.number, chosen.route and chosen.route.action, chosen.errors) == (2, A.ESCALATE, ())


def test_no_route_is_no_route() -> None:
    assert choose() == RouteChoice()
    assert choose(route(A.CLOSE, "outcome.attempts > 2")) == RouteChoice()


def test_a_condition_that_errors_is_no_match_and_is_told() -> None:
    chosen = choose(route(A.CLOSE, "receipt.order_id == 'o1'"), route(A.CLOSE, "1"), route(A.ESCALATE))
    assert chosen.number == 3
    assert [(error.number, error.message) for error in chosen.errors] == [
        (1, "the expression reads a field that is not there"),
        (2, "the expression did not give true or false"),
    ]


def test_an_action_that_cannot_follow_the_result_is_passed_over() -> None:
    all_of_them = [route(action, step="spare") for action in RouteAction]
    taken = {
        result: {
            chosen.route.action
            for one in all_of_them
            if (chosen := choose(one, result=result)).route is not None
        }
        for result in RouteResult
    }
    assert taken == dict(routes.POSSIBLE)
    assert taken[RouteResult.SUCCEEDED] == {A.RE_ENGAGE}
    assert A.RE_ENGAGE not in taken[RouteResult.FAILED_FOR_NOW]


def test_a_fall_back_needs_a_step_that_may_still_run() -> None:
    assert choose(route(A.FALL_BACK, step="spare"), fallbacks=()) == RouteChoice()


def came_to(result: CallResult, **known: Any) -> RouteResult | None:
    tried = FinishedAttempt(result=result, failures=known.pop("failures", 0), **known)
    return routes.result_of(tried, execution.decide(tried, at=NOW, jitter=0.0))


def test_the_result_that_routes_may_follow() -> None:
    assert came_to(RECEIPT) is RouteResult.SUCCEEDED
    assert came_to(BUSY) is RouteResult.FAILED_FOR_NOW
    assert came_to(BUSY, failures=3) is RouteResult.FAILED_OFTEN
    assert came_to(REFUSED) is RouteResult.FAILED


@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_what_is_in_doubt_is_never_routed(on_unknown: OnUnknown) -> None:
    assert came_to(LOST, on_unknown=on_unknown) is None
    assert came_to(BUSY, in_doubt=True, on_unknown=on_unknown) is None
    assert came_to(BUSY, in_doubt=True, failures=3, on_unknown=on_unknown) is None
    assert came_to(REFUSED, in_doubt=True, on_unknown=on_unknown) is None
    assert came_to(BUSY, purpose=Purpose.PROBE, on_unknown=on_unknown) is None
    # A receipt settles the doubt.
    assert came_to(RECEIPT, in_doubt=True) is RouteResult.SUCCEEDED
    assert came_to(RECEIPT, purpose=Purpose.PROBE) is RouteResult.SUCCEEDED


def test_a_probe_that_found_nothing_is_a_failure_like_any_other() -> None:
    asked: dict[str, Any] = {"purpose": Purpose.PROBE, "in_doubt": True, "on_unknown": OnUnknown.PROBE}
    assert came_to(NOTHING_DONE, **asked) is RouteResult.FAILED_FOR_NOW
    # Asked too early: the call may still arrive.
    assert came_to(NOTHING_DONE, over_at=NOW + timedelta(seconds=1), **asked) is None
    assert came_to(NOTHING_DONE, direction=Direction.COMPENSATE, **asked) is None


@pytest.mark.parametrize("result", [RECEIPT, BUSY, REFUSED, LOST])
def test_what_undoes_a_step_is_never_routed(result: CallResult) -> None:
    assert came_to(result, direction=Direction.COMPENSATE) is None


def test_a_refusal_for_good_is_tried_again_until_the_fourth_failure() -> None:
    assert follow(A.RETRY_LATER, REFUSED) == RetryAt(at=NOW + timedelta(seconds=0.5), failures=1)
    assert follow(A.RETRY_LATER, REFUSED, failures=3) == EscalateToPerson(
        reason=Reason.REPEATED_FAILURE, failures=4
    )
    assert isinstance(follow(A.RETRY_LATER, BUSY), RetryAt)


def test_each_action_says_what_follows() -> None:
    assert follow(A.FALL_BACK, REFUSED) == FallBack(step="spare")
    assert follow(A.ESCALATE, BUSY) == EscalateToPerson(reason=Reason.ROUTED, failures=1)
    assert follow(A.RE_ENGAGE, REFUSED) == Fail(failure=REFUSED)
    assert follow(A.CLOSE, BUSY) == CloseFailed(failure=BUSY)


@pytest.mark.parametrize("action", RouteAction)
def test_nothing_is_called_again_after_a_success(action: RouteAction) -> None:
    asks = EscalateToPerson(reason=Reason.RECEIPT_INVALID, failures=0)
    assert follow(action, RECEIPT) == (asks if action is A.ESCALATE else Succeed(receipt=RECEIPT))


def test_a_receipt_that_does_not_fit_may_be_routed_to_a_person() -> None:
    tried = FinishedAttempt(result=RECEIPT, failures=0)
    done = Succeed(receipt=RECEIPT)
    assert routes.result_of(tried, done) is routes.RouteResult.SUCCEEDED
    found = routes.result_of(tried, done, deviates=True)
    assert found is routes.RouteResult.DEVIATED
    assert routes.POSSIBLE[found] == {A.RE_ENGAGE, A.ESCALATE}


def test_what_expressions_read_of_a_result() -> None:
    assert routes.outcome(result=RECEIPT, step="order", attempts=1, failures=0) == {
        "status": "SUCCEEDED",
        "error_category": "",
        "status_code": 201,
        "step": "order",
        "attempts": 1,
        "failures": 0,
        "deviation": "",
    }
    assert routes.outcome(result=LOST, step="order", attempts=1, failures=0)["status_code"] == 0
