"""JSON Schema: our own codes, pointers and words, bounded and offline."""

import time
from typing import Any

import pytest

from runtime.kernel import schema_work, schemas

EVERYTHING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "whole": {"type": "integer", "minimum": 1, "maximum": 5},
        "either": {"type": ["string", "null"]},
        "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3},
        "when": {"type": "string", "format": "date-time"},
        "id": {"type": "string", "format": "uuid"},
        "step": {"multipleOf": 5},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "one": {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
        "list": {
            "type": "array",
            "items": {"enum": [1, 2]},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 2,
        },
        "const": {"const": "x"},
        "never": False,
        "not": {"not": {"type": "integer"}},
        "names": {"propertyNames": {"maxLength": 1}, "minProperties": 1, "maxProperties": 1},
        "holds": {"contains": {"const": 1}},
        "above": {"exclusiveMinimum": 0, "exclusiveMaximum": 10},
        "closed": {"type": "array", "prefixItems": [{}], "items": False},
        "known": {"properties": {"a": {}}, "unevaluatedProperties": False},
        "tuple": {"prefixItems": [{}], "unevaluatedItems": False},
        "lost": {"additionalProperties": False},
        "needs": {"dependentRequired": {"a": ["b"]}},
        "a/b~c": {"type": "integer"},
        "bytes": {"contentEncoding": "base64"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "pointer", "code", "message"),
    [
        ({"whole": 0}, "/whole", "minimum", "must be at least 1"),
        ({"whole": 6}, "/whole", "maximum", "must be at most 5"),
        ({"whole": "5"}, "/whole", "type", "must be integer"),
        ({"whole": 1.5}, "/whole", "type", "must be integer"),
        ({"either": 1}, "/either", "type", "must be null or string"),
        ({"word": "AB"}, "/word", "pattern", 'must match the pattern "^[a-z]+$"'),
        ({"word": "a"}, "/word", "minLength", "must have at least 2 characters"),
        ({"word": "abcd"}, "/word", "maxLength", "must have at most 3 characters"),
        ({"when": "yesterday"}, "/when", "format", "must be a date-time"),
        ({"id": "x"}, "/id", "format", "must be a uuid"),
        ({"step": 7}, "/step", "multipleOf", "must be a multiple of 5"),
        ({"any": 1}, "/any", "anyOf", "fits none of the allowed forms"),
        ({"one": 3}, "/one", "oneOf", "must fit exactly one of the allowed forms"),
        ({"one": 0}, "/one", "oneOf", "must fit exactly one of the allowed forms"),
        ({"list": [3]}, "/list/0", "enum", "must be one of 1, 2"),
        ({"list": [1, 1]}, "/list", "uniqueItems", "must not hold the same item twice"),
        ({"list": []}, "/list", "minItems", "must have at least 1 items"),
        ({"list": [1, 2, 1]}, "/list", "maxItems", "must have at most 2 items"),
        ({"const": "y"}, "/const", "const", 'must be "x"'),
        ({"never": 1}, "/never", "falseSchema", "is not allowed here"),
        ({"not": 1}, "/not", "not", "has a form that is not allowed"),
        ({"names": {"ab": 1}}, "/names", "propertyNames", "has a field name that is not allowed"),
        ({"names": {}}, "/names", "minProperties", "must have at least 1 fields"),
        ({"names": {"a": 1, "b": 1}}, "/names", "maxProperties", "must have at most 1 fields"),
        ({"holds": [2]}, "/holds", "contains", "lacks an item that the schema asks for"),
        ({"above": 0}, "/above", "exclusiveMinimum", "must be more than 0"),
        ({"above": 10}, "/above", "exclusiveMaximum", "must be less than 10"),
        ({"known": {"z": 1}}, "/known/z", "unevaluatedProperties", "is not a known field"),
        ({"tuple": [1, 2]}, "/tuple", "unevaluatedItems", "has items that are not known"),
        ({"needs": {"a": 1}}, "/needs/b", "required", "is required"),
        ({"a/b~c": ""}, "/a~1b~0c", "type", "must be integer"),
        ({"x/y": 1}, "/x~1y", "additionalProperties", "is not a known field"),
    ],
)
def test_says_where_and_what(value: Any, pointer: str, code: str, message: str) -> None:
    assert schemas.SchemaViolation(pointer, code, message) in schemas.violations(EVERYTHING, value)


def test_a_missing_field_is_named() -> None:
    schema = {"type": "object", "required": ["b", "a"]}
    found = schemas.violations(schema, {})
    assert [(one.pointer, one.message) for one in found] == [("/a", "is required"), ("/b", "is required")]
    assert schemas.violations(schema, []) == (schemas.SchemaViolation("", "type", "must be object"),)


def test_what_fits_has_no_violations() -> None:
    assert schemas.violations(EVERYTHING, {"whole": 3, "word": "abc", "list": [1, 2]}) == ()


def test_a_keyword_without_words_of_its_own_gets_plain_ones() -> None:
    schema = {"type": "object", "properties": {"x": {"contentEncoding": "base64"}}}
    words = {one.message for one in schemas.violations(schema, {"x": "***"})}
    assert words <= {"does not fit the schema"}


def test_the_order_is_stable_and_the_number_capped() -> None:
    value = {f"x{number:03}": 1 for number in range(500)}
    found = schemas.violations({"properties": {"a": {}}, "additionalProperties": False}, value)
    assert [one.pointer for one in found] == [f"/x{number:03}" for number in range(schemas.MAX_VIOLATIONS)]
    many = schemas.violations({"items": {"type": "integer"}}, ["x"] * 500)
    assert len(many) == schemas.MAX_VIOLATIONS


def test_a_schema_without_fields_allows_none() -> None:
    (found,) = schemas.violations({"type": "object", "additionalProperties": False}, {"a": 1, "b": 2})
    assert found == schemas.SchemaViolation("", "additionalProperties", "has a field that is not known")


def test_long_enumerations_and_patterns_are_shortened() -> None:
    (found,) = schemas.violations({"enum": list(range(50))}, -1)
    assert found.message == "must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ..."
    (found,) = schemas.violations({"const": "x" * 200}, 1)
    assert found.message.endswith("xxx...")
    assert len(found.message) < 100


def test_a_schema_is_compiled_once_by_its_content() -> None:
    assert schemas.checker({"type": "object", "a": 1}) is schemas.checker({"a": 1, "type": "object"})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "not an object"),
        ({"x": float("nan")}, "not plain JSON"),
        ({"x": 2**60}, "not plain JSON"),
        ({"description": "x" * 70_000}, "longer than"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "another dialect"),
        ({"type": "thing"}, "at /type: this is not what JSON Schema 2020-12 has here"),
        ({"properties": {"a": {"minimum": "x"}}}, "at /properties/a/minimum"),
        ({"pattern": "(?=a)"}, "not supported (no lookaround"),
        ({"pattern": r"(a)\1"}, "no backreferences"),
        ({"pattern": "((a{300}){300})"}, "bounded size"),
        ({"format": "telepathy"}, "format is not supported"),
        ({"$ref": "https://elsewhere.example/schema"}, "cannot be resolved"),
        ({"$ref": "#/$defs/nowhere"}, "cannot be resolved"),
        ({"$ref": "file:///etc/passwd"}, "cannot be resolved"),
        ({"$ref": "#"}, "refers to itself"),
        (
            {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"items": {"$ref": "#/$defs/b"}}}},
            "itself",
        ),
        ({"anyOf": [{"$ref": "#/%24defs/a"}]}, "cannot be resolved"),
        ({"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}}, "write references inside"),
        ({"$dynamicRef": "#x"}, "$dynamicRef"),
        ({"items": {"$id": "https://x.example/y", "$ref": "#/z"}}, "$id below its top"),
        ({"$ref": "#/properties/a/b/c", "properties": {"a": {"b": 3}}}, "cannot be resolved"),
        ({"minLength": -1}, "not what JSON Schema 2020-12 has here"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, words: str) -> None:
    (found,) = schemas.check_schema(schema)
    assert words in found


def test_a_schema_that_unfolds_without_end_is_refused() -> None:
    twice = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(20)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**twice, "a20": {"type": "string"}}}
    assert schemas.check_schema(schema) == ("the schema unfolds to more than 10000 parts",)


@pytest.mark.parametrize("links", [64, 300, 1500])
def test_references_that_follow_each_other_too_far_are_refused(links: int) -> None:
    chain = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(links)}
    (found,) = schemas.check_schema({"$ref": "#/$defs/a0", "$defs": {**chain, f"a{links}": {}}})
    assert "follow each other" in found


def test_what_was_counted_once_is_no_shorter_for_the_next() -> None:
    """Each is read before the one that refers to it."""
    chain = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in reversed(range(300))}
    (found,) = schemas.check_schema({"$defs": {"a300": {}, **chain}})
    assert "follow each other" in found


def test_references_follow_each_other_some_way() -> None:
    chain = {f"a{n}": {"items": {"$ref": f"#/$defs/a{n + 1}"}} for n in range(30)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**chain, "a30": {}}}
    assert schemas.check_schema(schema) == ()
    assert schemas.fits(schema, [[[]]])


def test_what_only_is_defined_is_bounded_too() -> None:
    twice = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(25)}
    schema = {"$defs": {"top": {"items": {"$ref": "#/$defs/a0"}}, **twice, "a25": {"type": "string"}}}
    assert schemas.check_schema(schema) == ("the schema unfolds to more than 10000 parts",)
    began = time.process_time()
    assert schemas.advise(schema) == ()
    assert time.process_time() - began < LONGEST_S
    inside = {"properties": {"a": {"$defs": {"b": {"items": {"$ref": "#/properties/a/$defs/b"}}}}}}
    (found,) = schemas.check_schema(inside)
    assert "itself" in found


WIDE = "(?i)" + "[!-\U0010fffd]" * 50


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"a{n}": {"pattern": f"{WIDE}{n}"} for n in range(100)}},
        {"patternProperties": {f"{WIDE}{n}": True for n in range(100)}},
        {"$defs": {"all": {"enum": [{"pattern": f"{WIDE}{n}"} for n in range(100)]}}},
        {"properties": {f"a{n}": {"pattern": f"(?x)a{n}"} for n in range(3)}},
    ],
    ids=["values", "names", "anywhere", "that cannot be followed"],
)
def test_patterns_that_take_long_to_compile_together_are_refused(schema: Any) -> None:
    began = time.process_time()
    (found,) = schemas.check_schema(schema)
    assert "patterns of the schema together" in found
    assert time.process_time() - began < LONGEST_S


def test_ordinary_patterns_are_no_trouble() -> None:
    many = {f"a{n}": {"pattern": rf"^[\w.-]{{1,64}}\W?\d+\D?\.{n}$"} for n in range(150)}
    assert schemas.check_schema({"properties": many}) == ()
    same = {f"a{n}": {"pattern": "^" + "[^,]{1,50}" * 3} for n in range(100)}
    assert schemas.check_schema({"properties": same}) == ()


def test_references_inside_the_schema_are_fine() -> None:
    schema = {
        "$id": "https://schemas.example/trade",
        "properties": {"a": {"$ref": "#/$defs/a~1b"}, "b": {"$ref": "#/$defs/a~1b"}, "$ref": {}},
        "enum": [{"a": 1, "$ref": "#"}],
        "$defs": {"a/b": {"type": "integer"}},
    }
    assert schemas.check_schema(schema) == ()
    assert schemas.violations(schema, {"a": 1, "$ref": "#"}) == ()


def test_a_good_schema_passes() -> None:
    assert schemas.check_schema(EVERYTHING) == ()
    assert schemas.check_schema({"$schema": schemas.DIALECT, "type": "object"}) == ()


def test_an_unusable_schema_raises_where_it_should_have_been_checked() -> None:
    with pytest.raises(ValueError, match="not usable"):
        schemas.violations({"type": "thing"}, 1)


WIDE_ROW = {"properties": {f"p{n}": {"type": "integer"} for n in range(60)}}


def rows(most: int | None, of: Any = WIDE_ROW) -> dict[str, Any]:
    """A list of rows with 60 declared fields each; at most so many."""
    bound = {} if most is None else {"maxItems": most}
    return {"properties": {"rows": {"type": "array", "items": of, **bound}}}


@pytest.mark.parametrize(
    "schema",
    [
        rows(None),
        rows(160),
        rows(8, of={**WIDE_ROW, "allOf": [rows(20)]}),
        {"$defs": {"row": WIDE_ROW}, **rows(161, of={"$ref": "#/$defs/row"})},
        {
            "properties": {name: rows(90, of={"$ref": "#/$defs/row"}) for name in "ab"},
            "$defs": {"row": WIDE_ROW},
        },
    ],
)
def test_lists_that_admit_more_than_is_checked_are_advised_against(schema: Any) -> None:
    assert schemas.check_schema(schema) == ()
    (found,) = schemas.advise(schema)
    assert found.startswith("the lists of the schema admit ")
    assert found.endswith("give each list maxItems, or lower it")


@pytest.mark.parametrize(
    "schema",
    [
        rows(150),
        {"type": "object"},
        {"items": {"type": "integer"}},
        {"properties": {"xs": {"type": "array"}}},
    ],
)
def test_what_these_lists_admit_is_checked(schema: Any) -> None:
    assert schemas.advise(schema) == ()


def test_what_was_judged_before_there_was_a_bound_is_read_whole() -> None:
    value = {"rows": [{f"p{n}": 1 for n in range(10)}] * 1_000}
    assert [found.code for found in schemas.violations(rows(2_000), value)] == ["size"]
    assert schemas.checker(rows(2_000)).violations_of_any_size(value) == ()
    with_text = {"rows": [*value["rows"], {"p1": "x"}]}
    (found,) = schemas.checker(rows(2_000)).violations_of_any_size(with_text)
    assert (found.pointer, found.message) == ("/rows/1000/p1", "must be integer")


def test_a_pattern_takes_linear_time() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert schemas.check_schema(schema) == ()
    assert schemas.violations(schema, "a" * 50_000 + "b") != ()


FORMS = {"oneOf": [{"properties": {"k": {"const": n}}, "required": ["k"]} for n in range(10)]}
CHOICES = {"anyOf": [{"const": n} for n in range(100)]}
# Seconds of CPU: a tenth of one on an idle machine, and below the two within which a server has to answer.
LONGEST_S = 1.5


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": FORMS}, [{"k": 99}] * 9_000),
        ({"type": "array", "items": FORMS}, [{"k": 3}] * 8_999 + [{"k": 99}]),
        ({"type": "array", "items": CHOICES}, [-1] * 2_000),
        ({"type": "array", "items": CHOICES}, [-1] * 180),
        ({"type": "string", "pattern": "(?:a|b|ab){2000}c"}, "ab" * 250_000),
        ({"type": "array", "items": {"pattern": "(?:a|b|ab){200}c"}}, ["ab" * 1_000] * 200),
        ({"enum": [[n] for n in range(5_000)]}, [-1] * 100),
        ({"type": "array", "uniqueItems": True}, [{"a": n} for n in range(9_000)] + [{"a": 1}]),
    ],
)
def test_a_check_is_short_whatever_is_sent(schema: Any, value: Any) -> None:
    schemas.checker(schema)
    began = time.process_time()
    found = schemas.violations(schema, value)
    assert time.process_time() - began < LONGEST_S
    assert 1 <= len(found) <= schemas.MAX_VIOLATIONS


def test_what_is_too_large_is_refused_before_it_is_checked() -> None:
    (found,) = schemas.violations({"items": FORMS}, [{"k": 3}] * 20_000)
    assert found.code == "size"
    assert found.message == "is too large for its schema: 40001 values, 20000 characters; send less at once"
    assert schemas.violations({"items": FORMS}, [{"k": 3}] * 900) == ()


def test_what_is_large_is_not_told_where() -> None:
    (found,) = schemas.violations({"items": FORMS}, [{"k": 99}] * 900)
    assert found.message == "does not fit the schema; with 1801 values it is too large to say where"
    named = schemas.violations({"items": FORMS}, [{"k": 99}] * 50)
    assert {one.code for one in named} == {"oneOf"}
    assert len(named) == schemas.MAX_VIOLATIONS


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"legs": {"type": "array", "items": FORMS}}}, "add maxItems"),
        ({"$defs": {"x": FORMS, "y": {"items": {"$ref": "#/$defs/x"}}}}, "add maxItems"),
        ({"items": {"properties": {"deep": {"items": CHOICES, "maxItems": 2}}}}, "add maxItems"),
        ({"items": FORMS, "maxItems": 100_000}, "lower maxItems"),
    ],
)
def test_lists_of_several_forms_need_a_bound(schema: Any, words: str) -> None:
    (said,) = schemas.advise(schema)
    assert words in said


@pytest.mark.parametrize(
    "schema",
    [
        {"items": FORMS, "maxItems": 100},
        {"items": {"type": "integer", "not": True}},
        {"items": {"items": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minimum": 1}}},
        {"items": True, "$defs": 3, "anyOf": [{"$ref": "#/nowhere"}, True]},
        {"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"not": {"$ref": "#/$defs/n"}}}},
    ],
)
def test_other_lists_need_none(schema: Any) -> None:
    assert schemas.advise(schema) == ()


def test_the_size_of_a_schema_counts_what_it_refers_to_each_time() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": FORMS}}
    once = schema_work.of_schema(FORMS, {})
    assert schema_work.of_schema(schema, schema).parts == 3 + 2 * once.parts
    patterned = {"patternProperties": {"^a{3}$": {"pattern": "(?=x)"}}}
    assert schema_work.of_schema(patterned, patterned) == schema_work.Size(2, 5 + 10_000)
