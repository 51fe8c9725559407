"""Short constructors for findings, so that a check reads as its question."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from audit import canonical
from runtime.contracts.policy_kind import OnFail
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate.gate_input import Case


class Check(Protocol):
    """A question to a case. No findings mean that all of it holds."""

    def __call__(self, case: Case) -> Iterable[Finding]: ...


def fail(
    check: str, code: str, message: str, *, subject: str = "", proposed_value: Any = None, limit: Any = None
) -> Finding:
    """A finding that rejects."""
    return _finding(FindingOutcome.FAIL, check, code, message, subject, proposed_value, limit)


def refer(
    check: str, code: str, message: str, *, subject: str = "", proposed_value: Any = None, limit: Any = None
) -> Finding:
    """A finding that asks for a person."""
    return _finding(FindingOutcome.REFER, check, code, message, subject, proposed_value, limit)


def by_rule(
    on_fail: OnFail,
    check: str,
    code: str,
    message: str,
    *,
    subject: str = "",
    proposed_value: Any = None,
    limit: Any = None,
) -> Finding:
    """A finding whose weight the policy kind sets."""
    outcome = FindingOutcome.FAIL if on_fail is OnFail.REJECT else FindingOutcome.REFER
    return _finding(outcome, check, code, message, subject, proposed_value, limit)


def passed(check: str) -> Finding:
    """The check held."""
    return Finding(check=check, outcome=FindingOutcome.PASS)


def is_rejected(findings: Sequence[Finding]) -> bool:
    """Whether any finding rejects."""
    return any(finding.outcome is FindingOutcome.FAIL for finding in findings)


def _finding(
    outcome: FindingOutcome,
    check: str,
    code: str,
    message: str,
    subject: str,
    proposed_value: Any,
    limit: Any,
) -> Finding:
    return Finding(
        check=check,
        outcome=outcome,
        code=code,
        subject=subject,
        message=message,
        proposed_value=_as_text(proposed_value),
        limit=_as_text(limit),
    )


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return canonical.encode(value).decode()
