"""What a call to a target came to: a receipt, or a failure whose class says what may follow."""

from dataclasses import dataclass
from enum import StrEnum


class FailureClass(StrEnum):
    """TRANSIENT: refused or never sent, the same key may be sent again. TERMINAL: refused for good.

    UNKNOWN: the request left, and nobody can say here whether it took effect.
    """

    TRANSIENT = "TRANSIENT"
    TERMINAL = "TERMINAL"
    UNKNOWN = "UNKNOWN"


class FailureCategory(StrEnum):
    """Where a call failed. Values are stored and shown: they are permanent."""

    TARGET_UNKNOWN = "TARGET_UNKNOWN"
    SECRET_MISSING = "SECRET_MISSING"  # noqa: S105  # a category, not a secret
    EGRESS_REFUSED = "EGRESS_REFUSED"
    REQUEST_INVALID = "REQUEST_INVALID"
    NAME_UNRESOLVED = "NAME_UNRESOLVED"
    CONNECT_FAILED = "CONNECT_FAILED"
    TARGET_BUSY = "TARGET_BUSY"
    TARGET_ERROR = "TARGET_ERROR"
    TARGET_REFUSED = "TARGET_REFUSED"
    REDIRECTED = "REDIRECTED"
    TIMED_OUT = "TIMED_OUT"
    CONNECTION_LOST = "CONNECTION_LOST"
    ANSWER_UNREADABLE = "ANSWER_UNREADABLE"
    ANSWER_TOO_LARGE = "ANSWER_TOO_LARGE"
    TOOL_FAILED = "TOOL_FAILED"
    TOOL_QUARANTINED = "TOOL_QUARANTINED"
    LEASE_ENDED = "LEASE_ENDED"
    NOT_HAPPENED = "NOT_HAPPENED"
    EXECUTOR_CRASHED = "EXECUTOR_CRASHED"
    CALLBACK_UNAVAILABLE = "CALLBACK_UNAVAILABLE"
    CALLBACK_OVERDUE = "CALLBACK_OVERDUE"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A 2xx answer with a JSON object; `body` is its canonical bytes."""

    status_code: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Anything else. `detail` is in our words: a target's text is never stored as ours."""

    category: FailureCategory
    failure_class: FailureClass
    detail: str
    status_code: int | None = None
    retry_after_s: float | None = None


CallResult = Receipt | Failure
