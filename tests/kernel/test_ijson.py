"""I-JSON from outside: bounded in depth and in number, and an offence is named with its place."""

import pytest

from runtime.contracts.problem import ProblemError
from runtime.kernel import ijson


def refused(raw: bytes) -> tuple[str, str]:
    with pytest.raises(ProblemError) as caught:
        ijson.parse(raw)
    violation = caught.value.problem.violations[0]
    return violation.pointer, violation.message


def test_depth_is_bounded() -> None:
    deep = b"[" * ijson.MAX_DEPTH + b"]" * ijson.MAX_DEPTH
    assert ijson.parse(deep).canonical == deep
    pointer, words = refused(b"[" + deep + b"]")
    assert (pointer, words) == ("/0" * ijson.MAX_DEPTH, f"is nested deeper than {ijson.MAX_DEPTH} levels")


def test_members_and_items_are_bounded_together() -> None:
    most = b'{"a":[' + b",".join([b"1"] * (ijson.MAX_VALUES - 1)) + b"]}"
    assert ijson.parse(most).canonical == most
    pointer, words = refused(most.replace(b"[", b"[1,"))
    assert (pointer, words) == ("/a", f"brings the body over {ijson.MAX_VALUES} members and items")
