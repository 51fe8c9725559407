"""What decides or proves sees no clock, no chance, no file. Imports are import-linter's; names are ours."""

import ast
from pathlib import Path

import pytest

from tests.architecture import tree

PURE = (
    "runtime/kernel",
    "runtime/contracts",
    "escalations/policy.py",
    "audit/canonical.py",
    "audit/chain.py",
    "audit/events",
)
CLOCKS = {"now", "utcnow", "today", "localtime", "time_ns", "monotonic", "sleep"}
CHANCE = {"uuid1", "uuid4", "urandom", "random", "randint"}
OUTSIDE = {"open", "print", "input", "exec", "eval", "__import__", "getenv", "environ"}
BANNED = CLOCKS | CHANCE | OUTSIDE


def test_pure_packages_call_nothing_that_varies() -> None:
    found = [
        f"{path}:{node.lineno} {tree.called(node)}()"
        for path in tree.sources(*PURE)
        for node in tree.nodes(path)
        if isinstance(node, ast.Call) and tree.called(node) in BANNED
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("place", PURE)
def test_what_is_called_pure_is_there(place: str) -> None:
    assert list(tree.sources(place))


def test_the_kernel_loads_without_django() -> None:
    assert tree.text(Path("runtime/__init__.py")) == ""
