"""The linter: known names and fields, bounded size and cost."""

from typing import Any

import pytest

from runtime.kernel.rules import cel_tokens, linter, list_bounds, scope

PARAMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "odd name": {"type": "integer"},
        "legs": {
            "type": "array",
            "maxItems": 20,
            "items": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "maxItems": 60, "items": {"type": "string", "maxLength": 20}},
                    "id": {"type": "integer"},
                },
                "additionalProperties": False,
            },
        },
        "long": {"type": "array", "maxItems": 1000},
        "free": {"type": "array"},
        "word": {"type": "string", "maxItems": 3},
        "deep": {"$ref": "#/$defs/deep"},
        "box": {"type": "object", "properties": {"list": {"allOf": [{"type": "array"}, {"maxItems": 5}]}}},
        "lost": {"$ref": "#/$defs/nowhere"},
        "outside": {"$ref": "https://elsewhere.example/x"},
    },
    "allOf": [{"properties": {"from_all_of": {}}}],
    "$ref": "#/$defs/more",
    "$defs": {
        "deep": {
            "type": "array",
            "maxItems": 4,
            "items": {"type": "array", "maxItems": 4, "items": {"type": "integer"}},
        },
        "more": {"properties": {"from_reference": {}}},
    },
}
CONSTRAINTS: dict[str, Any] = {"type": "object", "properties": {"max_slippage_bps": {"type": "integer"}}}


def lint(source: str, known: frozenset[str] = scope.JUDGED) -> list[str]:
    return linter.lint_expression(
        source,
        names=known,
        params_schema=PARAMS,
        constraints_schema=CONSTRAINTS,
        namespaces=frozenset({"market", "price"}),
    )


@pytest.mark.parametrize(
    "source",
    [
        "params.n > 1 && constraints.max_slippage_bps < 50",
        "has(params.n) ? params.n : 0",
        "params['n'] + params[\"odd name\"] > 1",
        "params.from_all_of == params.from_reference",
        "context.facts.market.state == 'OPEN'",
        "context.facts.price[string(params.n)] > 1",
        "size(context.facts.price) > 0 && params.size() > 0",
        "manifest.limits.anything >= params.n",
        "history.proposals_1m < 10 && budget.escalation_tokens > 0",
        "flow.trigger == {} || agent.role == 'EXECUTOR' || time.hour in [9, 10]",
        "type(params.n) == int",
        "{} == params && params != {}",
        "params.n in [1, 2].map(x, x + 1)",
        "params.legs.all(leg, leg.tags.exists(t, t == 'x'))",
        "params['legs'].filter(leg, leg.id == 1).all(leg, leg.tags.all(t, t != ''))",
        "params.legs[0].tags.exists(t, t == 'x')",
        "params.deep.all(row, row.all(cell, cell > 0))",
        "params.box.list.exists(x, x == 1)",
        "params.deep[0].map(x, x).filter(y, y > 0).size() > 0",
        "params.word.matches('^[a-z]+$') // params.word.matches(anything)",
        r"params.word == r'\' || params.word == '''it's''' || params.word == b'x'",
        "timestamp(time.iso).getHours() == 3",
    ],
)
def test_passes_what_can_be_followed(source: str) -> None:
    assert lint(source) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("params.n +", "cannot be read as CEL at character"),
        ("1 + \\", "cannot be read as CEL"),
        ("'" + "x" * 2000 + "'", "longer than 2000"),
        ("nobody == 1", "the name nobody is not known"),
        ("seen == current", "the name seen is not known"),
        ("params.nothing == 1", "params.nothing is not a field of the params schema"),
        ("constraints['other'] == 1", "constraints.other is not a field"),
        ("params[context.facts.market.state] == 1", "params is read with a computed field name"),
        ("params[time.iso + 'x'] == 1", "params is read with a computed field name"),
        ("flow[agent.role] == 1", "flow is not read as flow.name"),
        ("history['proposals_1m'] == 1", "history is not read as history.name"),
        ("history . proposals_1m == 1", "history is not read as history.name"),
        ("history. proposals_1m == 1", "history is not read as history.name"),
        ("size(context) == 1", "context is not read as context.name"),
        ("context.size() == 1", "context is not read as context.name"),
        ("1 == context", "context is not read as context.name"),
        ("size(context.facts) == 1", "context.facts is not read as context.facts.name"),
        ("context.facts.size() == 1", "context.facts is not read as context.facts.name"),
        ("context.facts['market'].state == ''", "context.facts is not read as context.facts.name"),
        ("context.facts .market.state == ''", "context.facts is not read as context.facts.name"),
        ("context.facts.price.size() == 1", "write size(context.facts.price)"),
        ("flow.owner == ''", "flow.owner is not known; flow has age_s"),
        ("context.memory == 1", "context.memory is not known"),
        ("context.facts.cash.USD > 1", "context.facts.cash is read, but no depends_on"),
        ("context.facts[params.word] == 1", "context.facts is not read as context.facts.name"),
        ("lower(params.word) == ''", "the function lower is not known"),
        ("params.word.lowerAscii() == ''", "the function lowerAscii is not known"),
        ("params.word.matches(params.word)", "the pattern of matches must be written out"),
        ("params.word.matches('a' + 'b')", "the pattern of matches must be written out"),
        ("Thing{n: 1} == 1", "objects of a named type"),
        (".params.n == 1", "may not start with a dot"),
        ("params.free.all(x, x > 1)", "iterates over params.free, which is not a list with maxItems"),
        ("params.word.all(x, x > 1)", "which is not a list with maxItems"),
        ("params.long.all(x, x > 1)", "whose maxItems is above 200"),
        ("params.lost.all(x, x)", "not a list with maxItems"),
        ("params.outside.all(x, x)", "not a list with maxItems"),
        ("params.n.deeper.all(x, x)", "not a list with maxItems"),
        ("params.legs[0].nothing.all(x, x)", "not a list with maxItems"),
        ("context.facts.market.all(x, x)", "not a list with maxItems"),
        ("(params.legs).all(x, true)", "iterates over something computed"),
        ("size(params.legs).all(x, true)", "iterates over something computed"),
        ("{'a': 1}.all(x, true)", "iterates over something computed"),
        ("'text'.all(x, true)", "iterates over something computed"),
        ("[params.legs][0].all(x, true)", "iterates over something computed"),
        ("params.legs.map(x, x).all(y, y.all(z, true))", "not a list with maxItems"),
        ("params.legs.all(params, true)", "binds the name params, which is already in use"),
        ("params.deep.all(x, x.all(x, true))", "binds the name x, which is already in use"),
        ("params.deep.all(a, a.all(b, [b].all(c, true)))", "nested deeper than 2"),
        ("params.legs.all(leg, leg.tags.map(t, t).size() > 0)", "whose maxItems is above 50"),
        ("params.legs.all(x, true) && x", "the name x is not known"),
        (" && ".join(["params.legs.all(x, true)"] * 9), "more than 8 macros"),
    ],
)
def test_refuses_in_a_sentence(source: str, words: str) -> None:
    found = lint(source)
    assert any(words in sentence for sentence in found), found


def test_says_a_thing_once() -> None:
    assert lint("params.nothing == params.nothing") == ["params.nothing is not a field of the params schema"]


def test_without_schemas_and_namespaces_fields_are_free() -> None:
    free = linter.lint_expression("params.x == context.facts.cash[params['y']]", names=scope.JUDGED)
    assert free == []


def test_a_name_of_a_type_may_be_a_name_of_its_own() -> None:
    assert linter.lint_expression("list.x == 1", names=frozenset({"list"})) == []


def test_unless_sees_four_names() -> None:
    assert lint("current == seen && params.n > constraints.max_slippage_bps", scope.UNLESS) == []
    assert lint("time.hour > 1", scope.UNLESS) != []


def test_a_character_that_cel_does_not_have_is_named() -> None:
    walk = linter._Walk(tokens=cel_tokens.tokenize("#"), allowed=frozenset(), schemas={}, namespaces=None)
    linter._read(walk, 0, walk.tokens[0])
    assert walk.found == ["the character '#' is not allowed in an expression"]


def test_tokens_keep_strings_whole() -> None:
    found = cel_tokens.tokenize(r"""r'\' + "a\"b" + '''x'y''' + 1.5e-3 + 0xFFu // + no""")
    assert [token.text for token in found] == [
        r"r'\'",
        "+",
        r'"a\"b"',
        "+",
        "'''x'y'''",
        "+",
        "1.5e-3",
        "+",
        "0xFFu",
    ]


def test_macro_variables_are_found() -> None:
    assert cel_tokens.bound_names("a.map(x, b.all(y, y)).size() + c.map") == {"x", "y"}


def test_a_loop_of_references_ends() -> None:
    looped = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a", "properties": {"x": {}}}}}
    assert list_bounds.property_names(looped) == {"x"}
    assert list_bounds.property_names({"$ref": "#/none/at/all", "properties": 3}) == frozenset()


def test_every_name_has_its_fields_in_the_table() -> None:
    assert set(scope.FIELDS) - {"intent", "outcome", "result", "answer"} == scope.JUDGED - {
        "params",
        "constraints",
        "figures",
        "labels",
    }
    assert scope.FIELDS["time"] == {"epoch_ms", "iso", "hour", "minute", "weekday"}


def test_a_figure_is_one_that_the_kind_works_out() -> None:
    known = frozenset({"cents"})
    assert linter.lint_expression("figures.cents > 1", names=scope.JUDGED, figures=known) == []
    found = linter.lint_expression("figures.dollars > 1", names=scope.JUDGED, figures=known)
    assert found == ["figures.dollars is not a field of the figures schema"]
    assert linter.lint_expression("figures.cents > 1", names=scope.WORKED_OUT) != []
