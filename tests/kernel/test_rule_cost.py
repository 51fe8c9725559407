"""How large values can be, and what an expression over them costs at worst."""

from typing import Any

import pytest

from runtime.kernel.rules import condition_linter, cost, linter, scope, shapes
from tests.support import gate_cases

TEXT = {"type": "string", "maxLength": 100}
NUMBERS = {"type": "array", "maxItems": 200, "items": {"type": "integer"}}
PARAMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "text": TEXT,
        "note": {"type": "string"},
        "numbers": NUMBERS,
        "texts": {"type": "array", "maxItems": 20, "items": {"type": "string"}},
        "open": {
            "type": "array",
            "maxItems": 20,
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "free": {},
        "box": {"type": "object", "properties": {"word": {"type": "string"}}, "additionalProperties": False},
        "wide": {"type": "object", "properties": {"word": TEXT}},
    },
}


def lint(source: str, **schemas: Any) -> linter.Linted:
    return linter.lint(source, names=scope.JUDGED, params_schema=PARAMS, constraints_schema={}, **schemas)


@pytest.mark.parametrize(
    "source",
    [
        "params.numbers.all(x, params.numbers.exists(y, x == y))",
        "params.numbers.filter(x, x > 1).map(x, x + 1).size() < 3",
        "params.text.matches('^[a-z]+$') && params.text.contains('x')",
        "params.box.word == 'x' || params['box']['word'] == 'y'",
        "string(params.n) + params.text in ['a', 'b']",
        "{'a': params.n, 'b': [params.text]} == {}",
        "params.n > 1 ? params.text < 'x' : -params.n < 3",
        "params.text == b'x' || params.numbers[0] == 1 || params.numbers[params.n] == 2",
        "flow.trigger == {} || dyn(params.n) == 1",
    ],
)
def test_honest_expressions_are_within_bounds(source: str) -> None:
    linted = lint(source)
    assert linted.found == ()
    assert 0 < linted.work <= linter.MAX_WORK


@pytest.mark.parametrize(
    ("source", "words"),
    [
        # A regular expression in a macro is compiled for each item.
        (
            f"[{'0,' * 25}].all(x, [{'0,' * 25}].all(y, !'aaaa'.matches('\\\\w{{200}}')))",
            "takes more than a millisecond to compile",
        ),
        ("params.numbers.all(x, 'a'.matches('a'))", "is inside a macro"),
        ("params.text.matches('(?=a)')", "holds what is not known here"),
        ("params.text.matches(b'a')", "the pattern of matches must be written out"),
        ("params.text.matches('" + "a" * 90 + r"\\w{9}')", "aaa...'"),
        # Lists within lists.
        ("params.numbers.all(a, params.numbers.all(b, params.numbers.exists(c, c == a + b)))", "may take"),
        ("params.numbers.all(a, params.numbers.map(b, params.text).size() > 1)", "may take"),
        # Texts that nothing bounds.
        (
            "params.texts.all(x, params.texts.all(y, !params.note.contains(x + y)))",
            "add maxLength to params.note",
        ),
        ("params.texts.all(x, params.box.word == x)", "add maxLength to params.box.word"),
        ("params.texts.all(x, params.box == {})", "add maxLength inside params.box"),
        ("params.texts.all(x, params.wide == {})", "add additionalProperties: false to params.wide"),
        ("params.texts.all(x, params.free == x)", "add a type to params.free"),
        ("params.numbers.all(x, params.texts[0] == '')", "add maxLength to params.texts[*]"),
        ("size(params.numbers.map(x, params.note)) > 1", "add maxLength to params.note"),
        ("params.open.filter(o, o.n > 1).size() > 1", "add additionalProperties: false inside params.open"),
        # A value that doubles with every sign.
        (" + ".join(["params.note"] * 120) + " == ''", "may take"),
        (" + ".join(["params.free"] * 120) + " == 1", "add a type to params.free"),
    ],
)
def test_what_could_keep_others_waiting_is_refused(source: str, words: str) -> None:
    found = lint(source).found
    assert any(words in sentence for sentence in found), found


def test_only_what_takes_too_long_stops_a_stored_expression() -> None:
    assert lint("params.nothing == 1").stops == ()
    assert lint("params.texts.all(x, params.box.word == x)").stops == ()
    assert lint("params.text.matches('\\\\w{200}')").stops != ()
    assert lint(" + ".join(["params.note"] * 120) + " == ''").stops != ()
    assert lint("x" * 3_000).stops != ()
    assert lint("1 +").stops == ()


def test_what_no_tree_can_be_made_of_is_refused() -> None:
    (said,) = lint("(" * 45 + "1" + ")" * 45).stops
    assert "cost cannot be told" in said


def test_the_bound_of_a_condition_is_far_below() -> None:
    source = "params.numbers.all(x, params.numbers.exists(y, x == y))"
    assert lint(source).found == ()
    assert any("is the most" in one for one in lint(source, most=condition_linter.MAX_WORK).found)


def test_parts_are_never_larger_than_the_whole() -> None:
    shape = shapes.of_schema(PARAMS, PARAMS)
    assert shape.below("text").text == 100
    assert shape.below("nothing").copy <= shape.copy
    assert shapes.Shape(copy=5).below("x").copy == 5
    many = shapes.of_schema({"type": "array", "maxItems": 50, "items": {"type": "string"}}, {})
    assert many.each().copy * 50 <= many.copy + 50 * shapes.SCALAR


@pytest.mark.parametrize(
    ("schema", "text", "count", "lacks"),
    [
        (False, 64, 0, ""),
        (True, shapes.MAX_TEXT, shapes.MAX_VALUES, "add a type to {}"),
        ({"const": "abc"}, 64, 0, ""),
        ({"enum": ["a" * 70, ["b"], {"c": 1}]}, 70, 1, ""),
        ({"enum": []}, 64, 0, ""),
        ({"type": "string", "maxLength": 9}, 9, 0, ""),
        ({"type": ["string", "null"], "maxLength": 90}, 90, 0, ""),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 90}]}, 90, 0, ""),
        ({"oneOf": [{"type": "string"}, {"type": "boolean"}]}, shapes.MAX_TEXT, 0, "add maxLength to {}"),
        ({"allOf": [{"type": "string"}, {"maxLength": 9}]}, 9, 0, ""),
        ({"type": "array"}, shapes.MAX_TEXT, shapes.MAX_VALUES, "add maxItems to {}"),
        ({"type": "array", "maxItems": 3, "prefixItems": [{}]}, shapes.MAX_TEXT, 3, "add a type inside {}"),
        ({"type": "object", "additionalProperties": False}, 0, 0, ""),
        (
            {"type": "object", "anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
            shapes.MAX_TEXT,
            shapes.MAX_VALUES,
            "add additionalProperties: false to {}",
        ),
        (
            {"type": ["object", "array"], "maxItems": 1, "additionalProperties": False},
            shapes.MAX_TEXT,
            1,
            "add a type inside {}",
        ),
        (
            {"type": "object", "patternProperties": {}, "additionalProperties": False},
            shapes.MAX_TEXT,
            shapes.MAX_VALUES,
            "add additionalProperties: false to {}",
        ),
    ],
)
def test_a_schema_bounds_a_value(schema: Any, text: int, count: int, lacks: str) -> None:
    shape = shapes.of_schema(schema, {})
    assert (shape.text, shape.count, shape.lacks) == (text, count, lacks)


def test_a_schema_that_goes_too_deep_bounds_nothing() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(20):
        schema = {"type": "array", "maxItems": 1, "items": schema}
    assert shapes.of_schema(schema, schema).text == shapes.MAX_TEXT


def test_joined_values_keep_what_all_of_them_have() -> None:
    listed = shapes.listed((shapes.SMALL,))
    assert shapes.items_of(listed, shapes.SMALL) == shapes.SMALL
    assert shapes.items_of(listed, shapes.ANYTHING) is None
    assert shapes.items_of() is None
    one = shapes.of_schema(PARAMS, PARAMS)
    assert shapes.joined(one, shapes.SMALL).below("text").text == 100
    assert shapes.joined(one, shapes.of_schema(PARAMS, PARAMS)).below("text").text == 100


@pytest.mark.parametrize("other", [shapes.FACT, shapes.ANYTHING, shapes.of_schema({"type": "object"}, {})])
def test_a_field_of_one_of_several_may_be_that_of_any(other: shapes.Shape) -> None:
    one = shapes.of_schema(PARAMS["properties"]["wide"], PARAMS)
    for joined in (shapes.joined(one, other), shapes.joined(other, one)):
        assert joined.below("word").copy >= other.copy


def test_places_are_written_as_people_write_them() -> None:
    found = lint("params.open.all(o, o.m == (params.open)[0].k && size(o.n) == [params.free][0].x)").found
    assert any("params.open[*].m" in one for one in found)
    assert cost.TOO_MUCH > linter.STOPPING_WORK


# Conditions


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (("1 == 1",) * 21, "There are 21 conditions, and at most 20 are allowed"),
        (("1 +",), "The condition '1 +': the expression cannot be read"),
        (("params.nothing == 1",), "not a field"),
        (("context.facts.price.AAPL > 1",) * 20, "The conditions together may take"),
    ],
)
def test_conditions_are_bounded_alone_and_together(conditions: tuple[str, ...], words: str) -> None:
    (said,) = condition_linter.lint_conditions(conditions, gate_cases.kind())
    assert words in said


def test_a_condition_without_a_kind_is_bounded_too() -> None:
    assert condition_linter.lint_conditions(("flow.attempts_used < 3",), None) == ()
    assert condition_linter.lint_conditions((), gate_cases.kind()) == ()


def test_stored_conditions_are_asked_unless_they_take_far_too_long() -> None:
    body = gate_cases.kind().to_bytes()
    assert condition_linter.are_safe(("context.facts.price.AAPL > 1",) * 20, body)
    assert not condition_linter.are_safe(("[1, 2].all(x, 'a'.matches('\\\\w{200}'))",), body)


@pytest.mark.parametrize(
    ("changes", "is_bounded"),
    [
        ({}, True),
        ({"maxProperties": None}, False),
        ({"additionalProperties": True}, False),
        ({"propertyNames": {}}, False),
        ({"properties": {"a": {"type": "integer"}}}, False),
        ({"patternProperties": {"^a": {}}}, False),
    ],
)
def test_a_map_of_small_fields_is_bounded_by_their_number(changes: dict[str, Any], is_bounded: bool) -> None:
    schema = {
        "type": "object",
        "maxProperties": 3,
        "propertyNames": {"maxLength": 10},
        "additionalProperties": {"type": "string", "maxLength": 20},
        **changes,
    }
    shape = shapes.of_schema(schema, schema)
    assert (shape.lacks == "") is is_bounded
    if is_bounded:
        assert shape.count == 3
        assert shape.below("whatever").text == 20
