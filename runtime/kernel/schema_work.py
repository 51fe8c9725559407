"""How much work it is to check a value against a schema: told before it is checked, from both their sizes.

A check cannot be stopped once it runs. So its parts (schemas within the schema, each as often as it is
referred to) times the values are bounded, and so are the states of its patterns times the characters.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.kernel import patterns

# Measured: under 100 ns for a part at a value, 4 ns for a state at a character. So neither is 100 ms.
MAX_WORK = 600_000
MAX_TEXT_WORK = 25_000_000
# Naming every place that does not fit takes fifty times as long as finding that one does not.
MAX_NAMED_WORK = 20_000
# Of a pattern that cannot be followed nobody knows more than that the library took it.
_MANY_STATES = 10_000
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Parts and pattern states of a schema, or values and characters of a value."""

    parts: int = 0
    states: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.parts + other.parts, self.states + other.states)


def is_too_much(schema: Size, value: Size) -> bool:
    """Whether checking would take too long."""
    return schema.parts * value.parts > MAX_WORK or schema.states * value.states > MAX_TEXT_WORK


def is_named(schema: Size, value: Size) -> bool:
    """Whether every place that does not fit may be named."""
    return schema.parts * value.parts <= MAX_NAMED_WORK


def of_value(value: Any) -> Size:
    """How many values there are, and how many characters in them."""
    waiting, values, chars = [value], 0, 0
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, str):
            chars += len(one)
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            chars += sum(map(len, one))
            waiting.extend(one.values())
    return Size(values, chars)


def of_schema(schema: Any, document: Mapping[str, Any], known: dict[str, Size] | None = None) -> Size:
    """The size of a schema that `schemas.check_schema` lets pass: its references do not run in circles."""
    if not isinstance(schema, dict):
        return Size(1)
    found = {} if known is None else known
    size = Size(1 + _listed_values(schema), sum(map(_states, _patterns(schema))))
    for part in members(schema):
        size += of_schema(part, document, found)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in found:
            found[reference] = Size()
            found[reference] = of_schema(target(reference, document), document, found)
        size += found[reference]
    return size


def members(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas directly within a schema."""
    for keyword in _NAMED:
        named = schema.get(keyword)
        yield from named.values() if isinstance(named, dict) else ()
    for keyword in _LISTED:
        listed = schema.get(keyword)
        yield from listed if isinstance(listed, list) else ()
    yield from (schema[keyword] for keyword in _SINGLE if keyword in schema)


def target(reference: str, document: Mapping[str, Any]) -> Any:
    """What a reference inside the document, `#/$defs/name`, refers to; None where nothing is."""
    found: Any = document
    for part in reference[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def advise(schema: Any, document: Mapping[str, Any]) -> Iterator[str]:
    """Lists whose items may take several forms, without a bound that keeps checking them short."""
    for part in _every(schema):
        items, most = part.get("items"), part.get("maxItems")
        if not isinstance(items, dict) or not _has_choice(items, document, frozenset()):
            continue
        forms = of_schema(items, document).parts
        if not isinstance(most, int):
            yield "a list of items that may take several forms (anyOf, oneOf) has no bound: add maxItems"
        elif most * forms > MAX_WORK:
            yield f"a list of {most} items with {forms} parts each takes too long: lower maxItems"


def _every(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema, all within it, and what it only defines."""
    if isinstance(schema, dict):
        yield schema
        defined = schema.get("$defs")
        for part in (*members(schema), *(defined.values() if isinstance(defined, dict) else ())):
            yield from _every(part)


def _has_choice(schema: Any, document: Mapping[str, Any], seen: frozenset[str]) -> bool:
    if not isinstance(schema, dict):
        return False
    if "anyOf" in schema or "oneOf" in schema:
        return True
    reference = schema.get("$ref")
    parts = list(members(schema))
    if isinstance(reference, str) and reference not in seen:
        parts.append(target(reference, document))
        seen |= {reference}
    return any(_has_choice(part, document, seen) for part in parts)


def _listed_values(schema: Mapping[str, Any]) -> int:
    """What is compared with the value one by one."""
    listed = [schema[keyword] for keyword in ("enum", "const", "required") if keyword in schema]
    return sum(of_value(one).parts for one in listed)


def _patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    named = schema.get("patternProperties")
    yield from named if isinstance(named, dict) else ()


def _states(pattern: str) -> int:
    found = patterns.cost(pattern)
    return _MANY_STATES if found is None else found.states
