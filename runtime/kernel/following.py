"""Results that are asked for where a target has said: the place, and what an answer there means."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urljoin, urlsplit

from runtime.contracts.kind_steps import ResultAsked
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError

MAX_LOCATION_CHARS = 2000
LONGEST_WAIT_S = 3600
_ACCEPTED, _SUCCESS = 202, 2


class Found(StrEnum):
    """What an answer says: DONE with its result, FAILED for good, or neither, so that it is asked again."""

    DONE = "DONE"
    FAILED = "FAILED"
    OPEN = "OPEN"


def location_of(headers: Sequence[tuple[str, str]], *, base_url: str, path: str) -> str | None:
    """Path and query of the one `Location` of an answer to `path`; None where it is no place of the target.

    A target is asked where it lives, and nowhere else: an address of another host, port or scheme would let
    it send the console, with its signature, to others.
    """
    named = [value for name, value in headers if name.lower() == "location"]
    if len(named) != 1:
        return None
    try:
        base = urlsplit(base_url)
        found = urlsplit(urljoin(base_url.rstrip("/") + path, named[0].strip()))
        is_elsewhere = (found.scheme, found.netloc) != (base.scheme, base.netloc)
    except ValueError:
        return None
    place = (found.path or "/") + (f"?{found.query}" if found.query else "")
    is_odd = len(place) > MAX_LOCATION_CHARS or not place.isascii() or not place.isprintable()
    return None if is_elsewhere or is_odd else place


def origin_of(base_url: str) -> str:
    """Scheme, host and port of a target's address."""
    base = urlsplit(base_url)
    return f"{base.scheme}://{base.netloc}"


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
