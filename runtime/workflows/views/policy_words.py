"""Checkers and routers of a workflow in a sentence each."""

from typing import assert_never

from runtime.contracts.workflow import (
    INTERRUPT,
    BudgetChecker,
    Checker,
    OnMissing,
    PrecedesChecker,
    RateChecker,
    Router,
    SequenceChecker,
    StateChecker,
    ThresholdRouter,
    ValidateRouter,
    ValueRouter,
)
from runtime.core.views import labels


def of_checker(checker: Checker) -> str:
    """Return what a checker asks; the expression of a state checker is shown beside it."""
    match checker:
        case SequenceChecker():
            return f"After a {checker.before} step, {checker.between} must pass before {checker.to}."
        case StateChecker():
            return "The expression must be exactly true."
        case RateChecker():
            return f"At most {checker.times:,} in {checker.per_s:,} s."
        case BudgetChecker():
            return f"More than {checker.above * 100:g} % of {checker.of} must be left."
        case PrecedesChecker():
            within = "" if checker.within_s is None else f", at most {checker.within_s:,} s before"
            return f"{checker.by} must come before it{within}."
        case _:
            assert_never(checker)


def of_router(router: Router) -> str:
    """Return when a router leads somewhere, and where; an expression is shown beside it."""
    if isinstance(router, ValidateRouter):
        failed = _place(router.failed)
        if router.by is None:
            return f"Unless the expression is exactly true, {failed}."
        return f"{router.by} comes next until it reports PASS; when it reports FAIL, {failed}."
    match router:
        case ThresholdRouter(below=None, above=bound):
            when = f"{router.key} is above {bound:g}"
        case ThresholdRouter(below=bound):
            when = f"{router.key} is below {bound:g}"
        case ValueRouter():
            when = f"{router.key} is {labels.plain_value(router.equals)}"
        case _:
            assert_never(router)
    missing = " or was not reported" if router.on_missing is OnMissing.TO else ""
    return f"When {when}{missing}, {_place(router.to)}."


def expression_of(policy: Checker | Router) -> str:
    """Return the expression of a policy that has one."""
    if isinstance(policy, StateChecker | ValidateRouter):
        return policy.require or ""
    return ""


def _place(instruction: str) -> str:
    return "a person is called" if instruction == INTERRUPT else f"{instruction} comes next"
