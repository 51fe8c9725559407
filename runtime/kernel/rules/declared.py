"""Which bounds of a proposal its kind declares.

A bound that the kind does not declare is read by no expression: taken, it would look like a promise that
nobody enforces. So it is refused, whatever the schema states about additional properties at its top.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runtime.kernel.rules import list_bounds
from runtime.kernel.schemas import SchemaViolation, pointer_of

# Enforced by the gate itself, so a kind need not declare it.
BUILT_IN = frozenset({"validity_window_sec"})
_CODE = "additionalProperties"
# What lets a nested object have members by other means than `properties`.
_OPENS = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "anyOf", "oneOf", "if", "not"}
)


def undeclared(schema: Mapping[str, Any], bounds: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """Each member of `bounds` that the schema does not declare, as the violation that it is.

    Below the top an object is as closed, unless its schema lists no members or opens itself: then it is a
    table whose keys the agent chooses, and an expression looks them up.
    """
    known = list_bounds.property_names(schema) | BUILT_IN
    for name in sorted(bounds):
        if name not in known:
            yield _violation(name)
        elif isinstance(bounds[name], dict | list):
            yield from _inside(list_bounds.members(schema, name, schema), schema, bounds[name], (name,))


def _inside(
    schemas: list[Mapping[str, Any]], document: Mapping[str, Any], value: Any, path: tuple[str | int, ...]
) -> Iterator[SchemaViolation]:
    parts = [part for schema in schemas for part in list_bounds.parts(schema, document)]
    if isinstance(value, dict):
        listed = {name for part in parts for name in part.get("properties", ())}
        is_open = not listed or any(_OPENS & part.keys() for part in parts)
        for name in sorted(value):
            if name in listed:
                below = [one for part in parts for one in list_bounds.members(part, name, document)]
                yield from _inside(below, document, value[name], (*path, name))
            elif not is_open:
                yield _violation(*path, name)
    elif isinstance(value, list):
        items = [part["items"] for part in parts if isinstance(part.get("items"), dict)]
        for at, item in enumerate(value):
            yield from _inside(items, document, item, (*path, at))


def _violation(*path: str | int) -> SchemaViolation:
    return SchemaViolation(pointer=pointer_of([*path]), code=_CODE, message="is not a known field")
