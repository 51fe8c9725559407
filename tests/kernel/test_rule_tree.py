"""The tree of an expression, as far as its cost needs it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernel.rules import cel_tokens, cost, tree
from runtime.kernel.rules.tree import (
    CallNode,
    Chain,
    Index,
    Items,
    Literal,
    Macro,
    Name,
    Select,
    Sign,
    TernaryNode,
)

ONE = Literal("1")


def parse(source: str) -> tree.Node:
    return tree.parse(cel_tokens.tokenize(source))


@pytest.mark.parametrize(
    ("source", "node"),
    [
        ("1", ONE),
        ("'a'", Literal("'a'", is_text=True)),
        ("a.b[1]", Index(Select(Name("a"), "b"), ONE)),
        (
            "a || b && !c",
            Chain(Name("a"), (("||", Chain(Name("b"), (("&&", Sign(Name("c"))),))),)),
        ),
        ("1 + 1 * 1 < 1", Chain(Chain(ONE, (("+", Chain(ONE, (("*", ONE),))),)), (("<", ONE),))),
        ("1 - 1 + 1", Chain(ONE, (("-", ONE), ("+", ONE)))),
        ("--1", Sign(ONE)),
        ("a ? 1 : b ? 1 : 1", TernaryNode(Name("a"), ONE, TernaryNode(Name("b"), ONE, ONE))),
        ("size(a)", CallNode("size", (Name("a"),))),
        ("a.size()", CallNode("size", (Name("a"),), is_method=True)),
        ("a.all(x, x)", Macro("all", Name("a"), "x", (Name("x"),))),
        ("a.map(x, x, 1)", Macro("map", Name("a"), "x", (Name("x"), ONE))),
        ("[1, 1,]", Items((ONE, ONE))),
        ("{'a': 1, 'b': 1,}", Items((parse("'a'"), ONE, parse("'b'"), ONE), is_map=True)),
        ("(1) in []", Chain(ONE, (("in", Items(())),))),
        ("{}", Items((), is_map=True)),
    ],
)
def test_reads_what_cel_reads(source: str, node: tree.Node) -> None:
    assert parse(source) == node


@pytest.mark.parametrize(
    "source",
    [
        "",
        "1 1",
        "a.",
        "a.1",
        "a.all(1, x)",
        "a.all(x)",
        "(1",
        "[1 1]",
        "{1 1}",
        "{1: 1 1: 1}",
        "a ? 1",
        ")",
        "a.'b'",
        "(1'",
    ],
)
def test_anything_else_is_refused(source: str) -> None:
    with pytest.raises(tree.UnreadableError):
        parse(source)


def test_a_text_is_never_a_bracket() -> None:
    closing = cel_tokens.CelToken(kind=cel_tokens.TokenKind.STRING, text=")", at=0)
    with pytest.raises(tree.UnreadableError):
        tree.parse((*cel_tokens.tokenize("(1"), closing))


def test_depth_is_bounded() -> None:
    depth = tree.MAX_DEPTH
    assert parse("(" * (depth - 1) + "1" + ")" * (depth - 1)) == ONE
    with pytest.raises(tree.UnreadableError):
        parse("(" * depth + "1" + ")" * depth)
    assert parse("a" + ".b" * tree.MAX_STEPS)
    with pytest.raises(tree.UnreadableError):
        parse("a" + ".b" * (tree.MAX_STEPS + 1))


@pytest.mark.parametrize("source", [" + ".join(["1"] * 500), "!" * 1_000 + "true", " && ".join(["a"] * 400)])
def test_what_is_long_is_not_deep(source: str) -> None:
    assert cost.of(parse(source), {})[0] > 0


@settings(max_examples=300, deadline=None)
@given(st.text("ab.()[]{}1'?:,!-+<=&| ", max_size=40))
def test_never_raises_anything_else(source: str) -> None:
    try:
        parse(source)
    except tree.UnreadableError:
        return
