"""CEL: plain JSON in, plain JSON out, one exception with words of our own."""

import math
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernel.rules import language, linter, scope
from runtime.kernel.rules.language import ErrorCode, Expression, ExpressionError

NAMES: dict[str, Any] = {
    "params": {"n": 3, "big": 9007199254740991, "half": 0.5, "s": "AAPL", "list": [1, 2], "none": None},
    "context": {"facts": {"market": {"state": "OPEN"}}},
}
CEL_TEXT = st.text(
    alphabet=st.sampled_from(list("paramsn.{}[]()'\"\\+-*/%<>=!&|?:, 0123456789erxu$#\n\té∀‮"))
    | st.characters(),
    max_size=60,
)
PIECES = st.lists(
    st.sampled_from(
        [
            "params",
            ".n",
            ".s",
            ".list",
            ".map(",
            ".all(",
            "x",
            ",",
            "x > 1",
            ")",
            "[0]",
            "['n']",
            "+",
            "1",
            "0",
        ]
    )
    | st.sampled_from([" ", "/", "'a'", "==", "true", "&&", "?", ":", "{", "}", "-", "has(", "r'\\'", "//"]),
    max_size=14,
).map("".join)


def code_of(source: str) -> ErrorCode:
    with pytest.raises(ExpressionError) as caught:
        language.compile_expression(source).evaluate(NAMES)
    assert caught.value.message == str(caught.value)
    return caught.value.code


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("1 +", ErrorCode.SYNTAX),
        ("", ErrorCode.SYNTAX),
        ("nobody", ErrorCode.UNKNOWN_NAME),
        ("nobody.field", ErrorCode.UNKNOWN_NAME),
        ("nothing(1)", ErrorCode.FUNCTION),
        ("int('x')", ErrorCode.FUNCTION),
        ("[1].map(x, nothing(x))", ErrorCode.FUNCTION),
        ("params.missing", ErrorCode.UNKNOWN_FIELD),
        ("params.list[9]", ErrorCode.INDEX),
        ("params.n / 0", ErrorCode.DIVISION_BY_ZERO),
        ("params.n % 0", ErrorCode.DIVISION_BY_ZERO),
        ("params.big * params.big", ErrorCode.OVERFLOW),
        ("params.big + 1", ErrorCode.OVERFLOW),
        ("params.n + 'x'", ErrorCode.TYPE),
        ("params.n * params.half", ErrorCode.TYPE),
        ("b'bytes'", ErrorCode.NOT_JSON),
        ("1.0 / 0.0", ErrorCode.NOT_JSON),
        ("{1: 2}", ErrorCode.NOT_JSON),
        ("timestamp('2026-01-01T00:00:00Z')", ErrorCode.NOT_JSON),
    ],
)
def test_says_in_its_own_words_why_there_is_no_value(source: str, code: ErrorCode) -> None:
    assert code_of(source) is code


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("params.n", 3),
        ("params.n * 2 + 1", 7),
        ("params.half", 0.5),
        ("params.none", None),
        ("params.s == 'AAPL'", True),
        ("[params.n, 1.5, 'x', [true]]", [3, 1.5, "x", [True]]),
        ("{'a': {'b': params.list}}", {"a": {"b": [1, 2]}}),
        ("context.facts.market.state == 'OPEN' || nobody", True),
        ("has(params.missing) ? params.missing : 0", 0),
    ],
)
def test_gives_plain_json(source: str, value: Any) -> None:
    found = language.compile_expression(source).evaluate(NAMES)
    assert found == value
    assert type(found) is type(value)


def test_compiles_a_source_once() -> None:
    assert language.compile_expression("1 + 1") is language.compile_expression("1 + 1")


def test_reads_only_the_names_that_it_uses() -> None:
    expression = Expression("params.n + 1")
    assert expression.names == {"params"}
    assert expression.evaluate({"params": {"n": 1}, "other": object()}) == 2


def test_only_true_holds() -> None:
    assert language.require("params.n == 3", NAMES)
    assert not language.require("params.n == 4", NAMES)
    with pytest.raises(ExpressionError) as caught:
        language.require("params.n", NAMES)
    assert caught.value.code is ErrorCode.NOT_BOOLEAN


def test_text_takes_integers_and_refuses_the_rest() -> None:
    assert language.text("params.s", NAMES) == "AAPL"
    assert language.text("params.n", NAMES) == "3"
    for source in ("true", "1.5", "null", "[1]"):
        with pytest.raises(ExpressionError) as caught:
            language.text(source, NAMES)
        assert caught.value.code is ErrorCode.NOT_TEXT


class PanicError(BaseException):
    """Stands for a panic of the extension, which is not an Exception."""


class FaultyProgram:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, _: object) -> None:
        raise self.error


@pytest.mark.parametrize("error", [PanicError(), ValueError("cannot be converted")])
def test_turns_a_panic_into_an_error_of_its_own(error: BaseException) -> None:
    expression = Expression("1")
    expression._program = FaultyProgram(error)  # type: ignore[assignment]
    with pytest.raises(ExpressionError) as caught:
        expression.evaluate({})
    assert caught.value.code is ErrorCode.INTERNAL


def test_lets_an_interrupt_through() -> None:
    expression = Expression("1")
    expression._program = FaultyProgram(KeyboardInterrupt())  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        expression.evaluate({})


def test_shared_names_carry_each_value_once() -> None:
    names = language.shared(NAMES)
    assert language.shared(names) is names
    assert language.require("params.n == 3", names)
    # Changed behind its back: the first value is the one that counts.
    names["params"] = {"n": 4}
    assert language.require("params.n == 3", names)
    with pytest.raises(ExpressionError) as caught:
        language.require("nobody == 3", names)
    assert caught.value.code is ErrorCode.UNKNOWN_NAME


@settings(max_examples=200, deadline=None)
@given(sources=st.lists(PIECES, max_size=4))
def test_sharing_names_changes_no_outcome(sources: list[str]) -> None:
    names = language.shared(NAMES)
    assert [outcome(source, names) for source in sources] == [outcome(source) for source in sources]


def test_is_shared_between_threads() -> None:
    expression = language.compile_expression("params.list.all(x, x < params.n) && params.s == 'AAPL'")
    wrong: list[object] = []

    def many() -> None:
        wrong.extend(value for _ in range(300) if (value := expression.evaluate(NAMES)) is not True)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@settings(max_examples=400, deadline=None)
@given(source=CEL_TEXT | PIECES)
def test_never_raises_anything_else_whatever_the_text(source: str) -> None:
    try:
        value = language.Expression(source).evaluate(NAMES)
    except ExpressionError:
        return
    assert is_json(value)


@settings(max_examples=400, deadline=None)
@given(source=CEL_TEXT | PIECES)
def test_the_linter_never_raises_and_speaks_in_sentences(source: str) -> None:
    schema = {"type": "object", "properties": {"n": {}, "s": {}, "list": {"type": "array", "maxItems": 3}}}
    found = linter.lint_expression(source, names=scope.JUDGED, params_schema=schema, constraints_schema={})
    assert all(isinstance(sentence, str) and sentence for sentence in found)


@settings(max_examples=200, deadline=None)
@given(source=PIECES)
def test_what_the_linter_passes_names_nothing_unknown(source: str) -> None:
    schema = {"type": "object", "properties": {"n": {}, "s": {}, "list": {"type": "array", "maxItems": 3}}}
    if linter.lint_expression(source, names=scope.JUDGED, params_schema=schema, constraints_schema={}):
        return
    assert outcome(source) not in (ErrorCode.UNKNOWN_NAME, ErrorCode.SYNTAX)


def outcome(source: str, names: Mapping[str, Any] = NAMES) -> object:
    try:
        return language.Expression(source).evaluate(names)
    except ExpressionError as error:
        return error.code


def is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(member) for key, member in value.items())
    if isinstance(value, list):
        return all(is_json(member) for member in value)
    return (
        value is None
        or isinstance(value, bool | str | int)
        or (isinstance(value, float) and math.isfinite(value))
    )
