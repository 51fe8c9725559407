"""How much work it is to check a value against a schema: told before it is checked, from both their sizes.

A check cannot be stopped once it runs. So its parts (schemas within the schema, each as often as it is
referred to) times the values are bounded, and so are the states of its patterns times the characters.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.kernel import patterns

# Measured: under 100 ns for a part at a value, 4 ns for a state at a character. So neither is 100 ms.
MAX_WORK = 600_000
MAX_TEXT_WORK = 25_000_000
# No request has more values.
MAX_VALUES = 20_000
# Naming every place that does not fit takes fifty times as long as finding that one does not.
MAX_NAMED_WORK = 20_000
# Nanoseconds to compile all patterns of a schema, once in each process: meanwhile nothing else runs.
MAX_COMPILING = 50_000_000
# Of a pattern that cannot be followed nobody knows more than that the library took it.
_MANY_STATES = 10_000
_LONG_COMPILING = 25_000_000
# In a schema these are ASCII, and so far smaller than in an expression.
_ASCII = {"w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "d": "[0-9]", "D": "[^0-9]"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
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
    # What is compared with the value one by one.
    listed = [schema[keyword] for keyword in ("enum", "const", "required") if keyword in schema]
    costs = [patterns.cost(pattern) for pattern in _patterns(schema)]
    size = Size(
        parts=1 + sum(of_value(one).parts for one in listed),
        states=sum(_MANY_STATES if cost is None else cost.states for cost in costs),
    )
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


def compiling(schema: Any) -> int:
    """Nanoseconds that compiling the patterns of a schema takes; the library compiles equal ones once.

    Patterns count wherever they stand, since a reference may name any place.
    """
    waiting, found = [schema], set[str]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.update(_patterns(one))
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    plain = (_ESCAPE.sub(lambda escape: _ASCII.get(escape[1], escape[0]), pattern) for pattern in found)
    costs = [patterns.cost(pattern) for pattern in plain]
    return sum(_LONG_COMPILING if cost is None else cost.compiling for cost in costs)


def definitions(schema: Any) -> Iterator[Any]:
    """What a schema, and all within it, only defines: whether or not anything refers to it."""
    for part in every_part(schema):
        defined = part.get("$defs")
        yield from defined.values() if isinstance(defined, dict) else ()


def advise(schema: Any, document: Mapping[str, Any]) -> Iterator[str]:
    """Lists whose items may take several forms, without a bound that keeps checking them short."""
    # What is behind a reference is worked out once, however often it is referred to.
    sizes, choices = dict[str, Size](), dict[str, bool]()
    for part in every_part(schema):
        items, most = part.get("items"), part.get("maxItems")
        if not isinstance(items, dict) or not _has_choice(items, document, choices):
            continue
        forms = of_schema(items, document, sizes).parts
        if not isinstance(most, int):
            yield "a list of items that may take several forms (anyOf, oneOf) has no bound: add maxItems"
        elif most * forms > MAX_WORK:
            yield f"a list of {most} items with {forms} parts each takes too long: lower maxItems"


def advise_on_lists(schema: Mapping[str, Any]) -> Iterator[str]:
    """Lists that together admit more values than may be checked against all parts of the schema."""
    parts, values = of_schema(schema, schema).parts, _largest(schema, schema, {})
    if parts * values > MAX_WORK:
        yield (
            f"the lists of the schema admit {values} values, and with its {parts} parts "
            f"{MAX_WORK // parts} are the most that are checked: give each list maxItems, or lower it"
        )


def _largest(schema: Any, document: Mapping[str, Any], known: dict[str, int]) -> int:
    """How many values there are in the largest that its lists and named fields admit.

    Fields that a schema lets pass without naming them are not counted: nobody was promised any.
    """
    if not isinstance(schema, dict):
        return 1
    most, named = schema.get("maxItems", MAX_VALUES), schema.get("properties")
    found = 1 + sum(_largest(one, document, known) for one in dict(named or {}).values())
    if schema.get("type") == "array" or "items" in schema:
        found += int(most) * _largest(schema.get("items"), document, known)
    forms = [form for keyword in ("allOf", "anyOf", "oneOf") for form in schema.get(keyword, ())]
    found = max([found, *(_largest(form, document, known) for form in forms)])
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in known:
            known[reference] = _largest(target(reference, document), document, known)
        found = max(found, known[reference])
    return min(found, MAX_VALUES)


def every_part(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema, all within it, and what it only defines."""
    if isinstance(schema, dict):
        yield schema
        defined = schema.get("$defs")
        for part in (*members(schema), *(defined.values() if isinstance(defined, dict) else ())):
            yield from every_part(part)


def _has_choice(schema: Any, document: Mapping[str, Any], known: dict[str, bool]) -> bool:
    """Whether a value may take several forms; `known` says so of what references name."""
    if not isinstance(schema, dict):
        return False
    if "anyOf" in schema or "oneOf" in schema:
        return True
    for part in members(schema):
        if _has_choice(part, document, known):
            return True
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return False
    if reference not in known:
        known[reference] = False
        known[reference] = _has_choice(target(reference, document), document, known)
    return known[reference]


def _patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    named = schema.get("patternProperties")
    yield from named if isinstance(named, dict) else ()
