"""How large a value can be, derived from its schema: what it costs to copy, compare and search it.

Costs are nanoseconds, measured with the library and rounded up. Where a schema sets no bound, that of a
whole request applies: no value in it is larger.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from runtime.kernel import schema_work
from runtime.kernel.rules import list_bounds

# A request has at most a million bytes and 20,000 values; a fact and a receipt have 65,536 bytes.
MAX_TEXT = 1_000_000
MAX_VALUES = 20_000
MAX_FACT_TEXT = 65_536
SCALAR = 40
_PER_CHAR_16 = 7
_LIST, _MAP, _ENTRY = 100, 300, 400
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Shape:
    """Bounds of a value: nanoseconds to copy it, its longest text, its most items.

    `lacks` is what to do to its schema for a bound of its own, as "add maxLength to {}"; else empty.
    """

    copy: int = SCALAR
    text: int = 0
    count: int = 0
    lacks: str = ""
    item: "Shape | None" = None
    schema: Mapping[str, Any] | None = None
    root: Mapping[str, Any] | None = None

    def below(self, name: str | None) -> "Shape":
        """The shape of a field or item; of all that it may be where `name` is not known."""
        found = None
        if name is not None and self.schema is not None and self.root is not None:
            field = list_bounds.below(self.schema, name, self.root)
            found = None if field is None else of_schema(field, self.root)
        found = found or self.item or replace(self, item=None, schema=None)
        # A part is never larger than the whole.
        return replace(found, copy=min(found.copy, self.copy))

    def each(self) -> "Shape":
        """An item as it is on average: whatever one item has more, the others have less."""
        one, count = self.item or replace(self, item=None, schema=None), max(self.count, 1)
        return replace(
            one,
            copy=min(one.copy, self.copy // count + SCALAR),
            text=min(one.text, max(MAX_TEXT, self.text) // count),
        )


def text(chars: int, *, lacks: str = "") -> Shape:
    """A text of at most so many characters."""
    return Shape(copy=SCALAR + chars * _PER_CHAR_16 // 16, text=chars, lacks=lacks)


def copy_of(value: Any) -> int:
    """Nanoseconds at most to copy a value that is known."""
    size = schema_work.of_value(value)
    return size.parts * _ENTRY + size.states * _PER_CHAR_16 // 16


SMALL = text(64)
# What nothing is known of, inside a request; a fact or a receipt; what the runtime itself keeps small.
ANYTHING = Shape(copy=MAX_VALUES * _ENTRY, text=MAX_TEXT, count=MAX_VALUES, lacks="add a type to {}")
FACT = Shape(copy=3_500_000, text=MAX_FACT_TEXT, count=MAX_VALUES)
OWN = Shape(copy=20_000, text=2_000, count=200)
# The facts that are loaded for one case, together.
WORLD = Shape(copy=100_000, text=MAX_FACT_TEXT, count=1_000)


def joined(*shapes: Shape) -> Shape:
    """What is one of several."""
    if len(shapes) == 1:
        return shapes[0]
    # A field is known only where all that may have fields agree on them.
    holding = [shape for shape in shapes if shape.count or shape.schema is not None]
    is_known = all((shape.schema, shape.root) == (holding[0].schema, holding[0].root) for shape in holding)
    only = holding[0] if holding and is_known else Shape()
    return Shape(
        copy=max(shape.copy for shape in shapes),
        text=max(shape.text for shape in shapes),
        count=max(shape.count for shape in shapes),
        lacks=next((shape.lacks for shape in shapes if shape.lacks), ""),
        item=items_of(*shapes),
        schema=only.schema,
        root=only.root,
    )


def items_of(*shapes: Shape) -> Shape | None:
    """The items of what is one of several; None where one of them may hold anything."""
    items = [shape.item for shape in shapes if shape.count]
    known = [item for item in items if item is not None]
    return joined(*known) if known and len(known) == len(items) else None


def listed(shapes: tuple[Shape, ...]) -> Shape:
    """A written-out list."""
    return Shape(
        copy=_LIST + sum(shape.copy for shape in shapes),
        count=len(shapes),
        item=joined(*shapes) if shapes else None,
    )


def mapped(shapes: tuple[Shape, ...]) -> Shape:
    """A written-out map; keys and values in turn."""
    made = listed(shapes)
    return replace(made, copy=_MAP + made.copy + _ENTRY * len(shapes), count=len(shapes) // 2)


class _Place:
    """A schema inside its document, both as the objects that they are: every expression of a kind asks."""

    __slots__ = ("root", "schema")

    def __init__(self, schema: Any, root: Mapping[str, Any]) -> None:
        self.schema = schema
        self.root = root

    def __hash__(self) -> int:
        return hash((id(self.schema), id(self.root)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and other.schema is self.schema and other.root is self.root


def of_schema(schema: Any, root: Mapping[str, Any]) -> Shape:
    """The shape of what fits `schema`: every part of it holds, so the narrowest bound does.

    Worked out once for the same two objects, which nobody changes: documents are read once, and stay.
    """
    return _of_place(_Place(schema, root))


@lru_cache(maxsize=256)
def _of_place(place: _Place) -> Shape:
    return _of_schema(place.schema, place.root, 0)


def _of_schema(schema: Any, root: Mapping[str, Any], depth: int) -> Shape:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return SMALL if schema is False else ANYTHING
    merged: dict[str, Any] = {}
    for part in list_bounds.parts(schema, root):
        fields = {**_mapping(part.get("properties")), **_mapping(merged.get("properties"))}
        merged = {**part, **merged, "properties": fields}
    known = list(_alternatives(merged, root, depth))
    return min(known, key=lambda shape: (shape.copy, shape.text), default=ANYTHING)


def _alternatives(part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[Shape]:
    """What each keyword alone requires; all of them apply."""
    options = (
        part["enum"] if isinstance(part.get("enum"), list) else [part["const"]] if "const" in part else None
    )
    if options is not None:
        yield joined(SMALL, *(of_value(option) for option in options))
    named = part.get("type")
    types = named if isinstance(named, list) else [named] if isinstance(named, str) else []
    if types:
        yield joined(*(_of_type(one, part, root, depth) for one in types))
    for keyword in ("anyOf", "oneOf"):
        members = part.get(keyword)
        if isinstance(members, list) and members:
            yield joined(*(_of_schema(member, root, depth + 1) for member in members))


def _of_type(name: Any, part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Shape:
    match name:
        case "string":
            longest = part.get("maxLength")
            return text(longest) if isinstance(longest, int) else text(MAX_TEXT, lacks="add maxLength to {}")
        case "array":
            most = part.get("maxItems")
            item = ANYTHING if "prefixItems" in part else _of_schema(part.get("items", True), root, depth + 1)
            if not isinstance(most, int):
                return replace(ANYTHING, lacks="add maxItems to {}", item=item, schema=part, root=root)
            return Shape(
                copy=min(_LIST + most * item.copy, ANYTHING.copy),
                text=item.text,
                count=most,
                lacks=_inside(item.lacks),
                item=item,
                schema=part,
                root=root,
            )
        case "object":
            bounded = _bounded_map(part, root, depth)
            if bounded is not None:
                return bounded
            # `unevaluatedProperties: false` closes it only to what no form of it (`anyOf`, `if`) names.
            if part.get("additionalProperties", True) is not False or "patternProperties" in part:
                return replace(
                    ANYTHING, lacks="add additionalProperties: false to {}", schema=part, root=root
                )
            # It is as large as its fields, since it has no others.
            named = _mapping(part.get("properties")).values()
            fields = [_of_schema(field, root, depth + 1) for field in named]
            return Shape(
                copy=min(_MAP + sum(shape.copy + _ENTRY for shape in fields), ANYTHING.copy),
                text=max((shape.text for shape in fields), default=0),
                count=len(fields),
                lacks=_inside(next((shape.lacks for shape in fields if shape.lacks), "")),
                schema=part,
                root=root,
            )
        case _:
            return SMALL


def _bounded_map(part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Shape | None:
    """An object of so many fields of one form, whatever their names; None for any other."""
    most, others = part.get("maxProperties"), part.get("additionalProperties")
    longest = _mapping(part.get("propertyNames")).get("maxLength")
    if not isinstance(most, int) or not isinstance(others, dict) or not isinstance(longest, int):
        return None
    if part.get("properties") or "patternProperties" in part:
        return None
    item, name = _of_schema(others, root, depth + 1), text(longest)
    return Shape(
        copy=min(_MAP + most * (item.copy + name.copy + _ENTRY), ANYTHING.copy),
        text=max(item.text, name.text),
        count=most,
        lacks=_inside(item.lacks),
        item=item,
    )


def _inside(lacks: str) -> str:
    """The same for what holds it."""
    return lacks.replace(" to {}", " inside {}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def of_value(value: Any) -> Shape:
    """The shape of a value that is written in a schema."""
    if isinstance(value, str):
        return text(len(value))
    if isinstance(value, list):
        return listed(tuple(of_value(item) for item in value))
    if isinstance(value, dict):
        return mapped(tuple(of_value(item) for pair in value.items() for item in pair))
    return SMALL
