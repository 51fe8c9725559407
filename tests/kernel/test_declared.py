"""Which bounds of a proposal a kind declares, at the top and below it."""

from typing import Any

import pytest

from runtime.kernel.rules import declared

INTEGER = {"type": "integer"}
BAND = {"type": "object", "properties": {"low": INTEGER, "high": INTEGER}}


def found(properties: dict[str, Any], bounds: Any, **keywords: Any) -> list[str]:
    schema = {"type": "object", "properties": properties, **keywords}
    return [item.pointer for item in declared.undeclared(schema, bounds)]


@pytest.mark.parametrize(
    ("bounds", "pointers"),
    [
        ({}, []),
        ({"a": 1}, []),
        ({"validity_window_sec": 30}, []),
        ({"b": 1}, ["/b"]),
        ({"b/c": 1, "~": 2}, ["/b~1c", "/~0"]),
        ({"a": {"deep": 1}}, []),
    ],
)
def test_a_member_at_the_top_is_declared_or_named(bounds: dict[str, Any], pointers: list[str]) -> None:
    assert found({"a": {}}, bounds) == pointers
    assert found({"a": {}}, bounds, additionalProperties=True) == pointers


def test_references_and_all_of_declare() -> None:
    keywords = {
        "$defs": {"more": {"properties": {"b": {"$ref": "#/$defs/band"}}}, "band": BAND},
        "allOf": [{"$ref": "#/$defs/more"}],
    }
    bounds = {"a": 1, "b": {"low": 1, "middle": 2}, "c": 1}
    assert found({"a": INTEGER}, bounds, **keywords) == ["/b/middle", "/c"]


@pytest.mark.parametrize(
    ("schema", "value", "pointers"),
    [
        (BAND, {"low": 1, "middle": 2}, ["/x/middle"]),
        (BAND, {"low": {"deeper": 1}}, []),
        (BAND, 7, []),
        ({**BAND, "additionalProperties": INTEGER}, {"low": 1, "middle": 2}, []),
        ({**BAND, "patternProperties": {"^m": INTEGER}}, {"middle": 2}, []),
        ({"type": "object"}, {"AAPL": 1}, []),
        ({"type": "array", "items": BAND}, [{"low": 1}, {"lower": 1}], ["/x/1/lower"]),
        ({"type": "array", "items": False}, [{"lower": 1}], []),
        ({"type": "array"}, [{"lower": 1}], []),
        (True, {"lower": 1}, []),
    ],
)
def test_below_the_top_an_object_is_closed_unless_it_opens_itself(
    schema: Any, value: Any, pointers: list[str]
) -> None:
    assert found({"x": schema}, {"x": value}) == pointers
