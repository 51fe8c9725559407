"""Regular expressions mean the same on every Python that the product runs on."""

import ast
from collections.abc import Iterator
from re import _constants, _parser
from typing import Any

import pytest

from tests.architecture import tree

# Possessive, these match right everywhere. Groups may not before Python 3.11.5 (gh-106052).
SINGLE = {_constants.IN, _constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY}


def _expressions() -> Iterator[tuple[str, str]]:
    for path in tree.sources(*tree.APPS, "sdk"):
        for node in tree.nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                given = node.args[0]
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield f"{path}:{node.lineno}", given.value


def _possessive_groups(parsed: Any) -> Iterator[Any]:
    for operation, held in parsed:
        if operation is _constants.ATOMIC_GROUP or (
            operation is _constants.POSSESSIVE_REPEAT and not _is_single(held[2])
        ):
            yield operation
        for part in held if isinstance(held, tuple | list) else (held,):
            for inner in part if isinstance(part, list) else (part,):
                if isinstance(inner, _parser.SubPattern):
                    yield from _possessive_groups(inner)


def _is_single(repeated: Any) -> bool:
    return len(repeated) == 1 and repeated[0][0] in SINGLE


def test_no_group_is_possessive() -> None:
    expressions = dict(_expressions())
    assert len(expressions) > 50
    found = [where for where, text in expressions.items() if any(_possessive_groups(_parser.parse(text)))]
    assert found == []


@pytest.mark.parametrize("text", ["(?:a-)*+", "x(?:(?:b,)++|c)", "(?>ab)", "(?P<n>(?:[a-z]1)?+)"])
def test_such_groups_are_found(text: str) -> None:
    assert any(_possessive_groups(_parser.parse(text)))


@pytest.mark.parametrize("text", ["[a-z]++", "a*+", ".?+", "(?:a-)*", "[^,]++(?:,[^,]++)*"])
def test_others_are_allowed(text: str) -> None:
    assert not any(_possessive_groups(_parser.parse(text)))
