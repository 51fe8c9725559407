"""Routes after the call: what a kind says shall follow from the result of one of its steps.

The first route whose `when` is exactly true, and whose action can follow such a result at all, is taken.
A result of which nobody knows what it did is never routed: the target, or a person, is asked first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never

from runtime.contracts.policy_kind import Route, RouteAction
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import CallResult, Failure, FailureClass, Receipt
from runtime.contracts.states import Direction, Purpose
from runtime.kernel import execution
from runtime.kernel.execution import Action, EscalateToPerson, Fail, FinishedAttempt, RetryAt, Succeed
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError


class RouteResult(StrEnum):
    """What a result came to before any route: done, to be tried again, failed too often, or for good.

    DEVIATED is done as well, with a receipt that does not fit the step's schema.
    """

    SUCCEEDED = "SUCCEEDED"
    DEVIATED = "DEVIATED"
    FAILED_FOR_NOW = "FAILED_FOR_NOW"
    FAILED_OFTEN = "FAILED_OFTEN"
    FAILED = "FAILED"


# Nothing calls again after a success, and advice is given where the step has come to its end.
POSSIBLE: Mapping[RouteResult, frozenset[RouteAction]] = {
    RouteResult.SUCCEEDED: frozenset({RouteAction.RE_ENGAGE}),
    RouteResult.DEVIATED: frozenset({RouteAction.RE_ENGAGE, RouteAction.ESCALATE}),
    RouteResult.FAILED_FOR_NOW: frozenset(RouteAction) - {RouteAction.RE_ENGAGE},
    RouteResult.FAILED_OFTEN: frozenset({RouteAction.FALL_BACK, RouteAction.ESCALATE, RouteAction.CLOSE}),
    RouteResult.FAILED: frozenset(RouteAction),
}


@dataclass(frozen=True, kw_only=True)
class FallBack:
    """Run the step of this id in place of the one that failed."""

    step: str


@dataclass(frozen=True, kw_only=True)
class CloseFailed:
    """The flow ends CLOSED although the step failed."""

    failure: Failure


Routed = Action | FallBack | CloseFailed


@dataclass(frozen=True, kw_only=True)
class Error:
    """A `when` that could not be evaluated: no match, and worth a look. Routes count from 1."""

    number: int
    message: str


@dataclass(frozen=True, kw_only=True)
class RouteChoice:
    """The route that is taken, counted from 1 in the kind's order, and those that could not be asked."""

    number: int = 0
    route: Route | None = None
    errors: tuple[Error, ...] = ()


def result_of(tried: FinishedAttempt, action: Action, *, deviates: bool = False) -> RouteResult | None:
    """The result that routes may follow; None for one in doubt, and for what undoes a step.

    `deviates` says that the receipt does not fit the step's schema.
    """
    if tried.direction is Direction.COMPENSATE:
        return None
    match action:
        case Succeed():
            return RouteResult.DEVIATED if deviates else RouteResult.SUCCEEDED
        case RetryAt():
            # Whether this call, or one before it under the same key, may have taken effect.
            in_doubt = not execution.is_settled_by_probe(tried, action) and (
                tried.in_doubt
                or tried.purpose is Purpose.PROBE
                or isinstance(tried.result, Receipt)
                or tried.result.failure_class is FailureClass.UNKNOWN
            )
            return None if in_doubt else RouteResult.FAILED_FOR_NOW
        case Fail():
            return RouteResult.FAILED
        case EscalateToPerson(reason=reason):
            return RouteResult.FAILED_OFTEN if reason is Reason.REPEATED_FAILURE else None
        case _:
            assert_never(action)


def outcome(
    *, result: CallResult, step: str, attempts: int, failures: int, deviation: str = ""
) -> dict[str, Any]:
    """The value of `outcome`: text is empty and `status_code` 0 where there was none.

    `deviation` is the severity of a receipt that does not fit its schema.
    """
    failure = result if isinstance(result, Failure) else None
    return {
        "status": "SUCCEEDED" if failure is None else "FAILED",
        "error_category": "" if failure is None else failure.category.value,
        "status_code": result.status_code or 0,
        "step": step,
        "attempts": attempts,
        "failures": failures,
        "deviation": deviation,
    }


def choose(
    routes: Sequence[Route], *, names: Mapping[str, Any], result: RouteResult, fallbacks: Collection[str]
) -> RouteChoice:
    """The first route that fits. `fallbacks` are the steps that may run in place of the one that failed."""
    errors, known = list[Error](), language.shared(names)
    for number, route in enumerate(routes, start=1):
        if route.action not in POSSIBLE[result]:
            continue
        if route.action is RouteAction.FALL_BACK and route.step not in fallbacks:
            continue
        try:
            if language.require(route.when, known):
                return RouteChoice(number=number, route=route, errors=tuple(errors))
        except ExpressionError as error:
            errors.append(Error(number=number, message=error.message))
    return RouteChoice(errors=tuple(errors))


def follow(
    route: Route, *, action: Action, result: CallResult, failures: int, at: datetime, jitter: float
) -> Routed:
    """What follows in place of `action`. `failures` counts the earlier operational failures of the step."""
    if isinstance(result, Receipt):
        if route.action is RouteAction.ESCALATE:
            return EscalateToPerson(reason=Reason.RECEIPT_INVALID, failures=failures)
        return action
    match route.action:
        case RouteAction.RETRY_LATER:
            if isinstance(action, Fail):
                return execution.again(failure=result, failures=failures, at=at, jitter=jitter)
            return action
        case RouteAction.FALL_BACK:
            return FallBack(step=route.step or "")
        case RouteAction.ESCALATE:
            return EscalateToPerson(reason=Reason.ROUTED, failures=failures + 1)
        case RouteAction.RE_ENGAGE:
            return action
        case RouteAction.CLOSE:
            return CloseFailed(failure=result)
        case _:
            assert_never(route.action)
