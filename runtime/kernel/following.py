"""What an answer means that a target gives where it is asked for the result of a call."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from runtime.contracts.kind_steps import ResultAsked
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError

LONGEST_WAIT_S = 3600
_ACCEPTED, _SUCCESS = 202, 2


class Found(StrEnum):
    """What an answer says: DONE with its result, FAILED for good, or neither, so that it is asked again."""

    DONE = "DONE"
    FAILED = "FAILED"
    OPEN = "OPEN"


def judge(asked: ResultAsked, *, status_code: int, body: Mapping[str, Any] | None) -> Found:
    """What an answer says. `body` is None where it was no JSON object; a condition that errors does not hold.

    FAILED before DONE: nothing counts as done that says of itself that it failed. Without a JSON object in a
    2xx answer there is no receipt, so it is not done.
    """
    answer = {"answer": {"status_code": status_code, "body": dict(body or {})}}
    if asked.failed is not None and _holds(asked.failed, answer):
        return Found.FAILED
    if body is None or status_code // 100 != _SUCCESS:
        return Found.OPEN
    is_done = status_code != _ACCEPTED if asked.done is None else _holds(asked.done, answer)
    return Found.DONE if is_done else Found.OPEN


def wait_s(asked: ResultAsked, *, told_s: float | None) -> float:
    """Seconds until it is asked again; `told_s` is what the target told to wait with Retry-After."""
    return max(asked.every_s, min(told_s or 0, LONGEST_WAIT_S))


def _holds(source: str, names: Mapping[str, Any]) -> bool:
    try:
        return language.require(source, names)
    except ExpressionError:
        return False
