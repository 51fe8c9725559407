"""Short constructors for findings, so that a check reads as its question, and how their numbers compare."""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Protocol

from audit import canonical
from runtime.contracts.kind_types import OnFail
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate.gate_input import Case


class CheckName(StrEnum):
    """The checks, by the names that findings, and lifts of them, are stored with."""

    SCHEMA = "schema"
    AUTHORITY = "authority"
    VALIDITY = "validity"
    RETRIES = "retries"
    CONTEXT_FRESHNESS = "context_freshness"
    CONSTRAINTS = "constraints"
    CONDITIONS = "conditions"
    RED_LINES = "red_lines"
    INVARIANTS = "invariants"
    EVIDENCE = "evidence"
    TOOLS = "tools"
    WORKFLOW = "workflow"
    BUDGET = "budget"
    RATE = "rate"
    LIMITS = "limits"
    RULES = "rules"
    RULESETS = "rulesets"
    FOLLOWS_DECISION = "follows_decision"
    CONFIDENCE = "confidence"
    AUTONOMY = "autonomy"
    LABELS = "labels"
    APPROVALS = "approvals"
    RESOURCES = "resources"
    CONSEQUENCE = "consequence"
    ESCALATION_BUDGET = "escalation_budget"


class Check(Protocol):
    """A question to a case. No findings mean that all of it holds.

    The docstring of each is on the page of checks: what it asks, and in a second paragraph what it answers.
    """

    def __call__(self, case: Case) -> Iterable[Finding]: ...


def fail(
    check: CheckName,
    code: str,
    message: str,
    *,
    subject: str = "",
    proposed_value: Any = None,
    limit: Any = None,
) -> Finding:
    """A finding that rejects."""
    return by_rule(
        OnFail.REJECT, check, code, message, subject=subject, proposed_value=proposed_value, limit=limit
    )


def refer(
    check: CheckName,
    code: str,
    message: str,
    *,
    subject: str = "",
    proposed_value: Any = None,
    limit: Any = None,
) -> Finding:
    """A finding that asks for a person."""
    return by_rule(
        OnFail.ESCALATE, check, code, message, subject=subject, proposed_value=proposed_value, limit=limit
    )


def by_rule(
    on_fail: OnFail,
    check: CheckName,
    code: str,
    message: str,
    *,
    subject: str = "",
    proposed_value: Any = None,
    limit: Any = None,
) -> Finding:
    """A finding whose weight the policy kind sets."""
    compared, bound = (
        value if value is None or isinstance(value, str) else canonical.encode(value).decode()
        for value in (proposed_value, limit)
    )
    return Finding(
        check=check,
        outcome=FindingOutcome.FAIL if on_fail is OnFail.REJECT else FindingOutcome.REFER,
        code=code,
        subject=subject,
        message=message,
        proposed_value=compared,
        limit=bound,
    )


def at_most(value: str | None, bound: str | None) -> bool:
    """Whether a number in text is not above another; without numbers, whether the two are the same."""
    if value == bound:
        return True
    try:
        return value is not None and bound is not None and Decimal(value) <= Decimal(bound)
    except InvalidOperation:
        return False
