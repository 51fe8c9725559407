"""The units of a policy kind's amounts: those its schemas name, and those of its limits and facts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from runtime.contracts.facts import ResourceFacts
from runtime.contracts.policy_kind import KindDocument, Limit
from runtime.contracts.units import AmountUnits
from runtime.kernel import schema_work, units
from runtime.kernel.rules import list_bounds

KEYWORD: Final = "x-unit"
MANIFEST_LIMITS: Final = "manifest.limits."
SCHEMAS: Final = ("params_schema", "constraints_schema", "outputs_schema")
# What a schema compares the amount with: in the unit of the amount.
_COMPARED: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "const", "default", "enum"),
)
_NUMBERS: Final = {"integer", "number"}


def of_kind(kind: KindDocument | None, resources: Iterable[ResourceFacts]) -> AmountUnits:
    """Return the units of everything that a proposal of this kind states and is compared with."""
    if kind is None:
        return AmountUnits()
    return AmountUnits(
        params=of_schema(kind.params_schema),
        constraints=of_schema(kind.constraints_schema),
        limits={limit.id: unit for limit in kind.limits if (unit := of_limit(kind, limit))},
        resources={resource.name: resource.unit for resource in resources},
    )


def of_schema(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the unit of each property that names one; a malformed one counts as none."""
    found = {}
    for name in sorted(list_bounds.property_names(schema)):
        for part in _stated(schema, name):
            text = part.get(KEYWORD)
            if isinstance(text, str) and isinstance(units.parse(text), units.Unit):
                found[name] = text
    return found


def of_limit(kind: KindDocument, limit: Limit) -> str:
    """Return the unit of a limit: its own, else that of the one parameter or constraint that is its value."""
    return limit.unit or _of_value(kind, limit)


def of_manifest_limits(kinds: Iterable[KindDocument]) -> dict[str, str]:
    """Return the units of the manifest's limits with which these kinds compare amounts as they stand.

    A limit that two kinds count in different units has none: no page could say which.
    """
    found: dict[str, set[str]] = {}
    for kind in kinds:
        for limit in kind.limits:
            name, unit = limit.limit.strip(), of_limit(kind, limit)
            if name.startswith(MANIFEST_LIMITS) and unit:
                found.setdefault(name.removeprefix(MANIFEST_LIMITS), set()).add(unit)
    return {name: min(known) for name, known in found.items() if len(known) == 1}


def list_amounts(kind: KindDocument, params: Mapping[str, Any]) -> dict[str, int]:
    """Return the whole amounts that the kind's limits bound, added up by unit, each parameter once.

    A limit on more than one parameter, or on no number, bounds no amount of a parameter.
    """
    known = of_schema(kind.params_schema)
    roots = (limit.value.strip().partition(".") for limit in kind.limits)
    found: dict[str, int] = {}
    for name in sorted({name for root, _, name in roots if root in {"params", "figures"}}):
        value = params.get(name)
        if name in known and isinstance(value, int) and not isinstance(value, bool):
            found[known[name]] = found.get(known[name], 0) + value
    return found


def of_paths(kind: KindDocument) -> dict[str, str]:
    """Return the units of what the schemas compare, by its path in a difference of two versions."""
    return {
        f"{schema}.properties.{name}.{keyword}": unit
        for schema in SCHEMAS[:2]
        for name, unit in of_schema(getattr(kind, schema)).items()
        for keyword in _COMPARED
    }


def lint(kind: KindDocument) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what is wrong with the units of a kind: the place, and a sentence."""
    for schema_name in SCHEMAS:
        schema = getattr(kind, schema_name)
        if schema is not None:
            yield from _lint_schema(schema_name, schema)
    for at, limit in enumerate(kind.limits):
        if limit.unit is None:
            continue
        parsed, of_value = units.parse(limit.unit), _of_value(kind, limit)
        if isinstance(parsed, units.InvalidUnit):
            yield ("limits", at, "unit"), f"{_quoted(limit.unit)} {parsed.why}"
        elif of_value and of_value != limit.unit:
            yield (
                ("limits", at, "unit"),
                f"the value {limit.value.strip()} is in {of_value}, not {limit.unit}",
            )
    yield from _lint_facts(kind)


def _lint_facts(kind: KindDocument) -> Iterator[tuple[tuple[str | int, ...], str]]:
    known: dict[str, str] = {}
    for name in ("depends_on", "predicts"):
        for at, item in enumerate(getattr(kind, name)):
            if item.unit is None:
                continue
            parsed, other = units.parse(item.unit), known.setdefault(item.fact, item.unit)
            if isinstance(parsed, units.InvalidUnit):
                yield (name, at, "unit"), f"{_quoted(item.unit)} {parsed.why}"
            elif other != item.unit:
                yield (name, at, "unit"), f"the fact {item.fact} is in {other} elsewhere, not {item.unit}"


def _lint_schema(schema_name: str, schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    names = list_bounds.property_names(schema) if schema_name in SCHEMAS[:2] else frozenset()
    read = {id(part) for name in names for part in _stated(schema, name)}
    for name in sorted(names):
        stated = list(_stated(schema, name))
        for text in (part[KEYWORD] for part in stated if KEYWORD in part):
            place = (schema_name, "properties", name, KEYWORD)
            parsed = units.parse(text) if isinstance(text, str) else units.InvalidUnit("is no text")
            if isinstance(parsed, units.InvalidUnit):
                yield place, f"{_quoted(text)} {parsed.why}"
            elif not _is_number(stated):
                yield place, f"only a number has a unit: give {name} the type integer or number"
    if any(KEYWORD in part and id(part) not in read for part in schema_work.every_part(schema)):
        where = "the top-level properties of params_schema and constraints_schema"
        yield (schema_name,), f"{KEYWORD} belongs to {where}; elsewhere it has no effect"


def _of_value(kind: KindDocument, limit: Limit) -> str:
    root, _, name = limit.value.strip().partition(".")
    schema = {
        "params": kind.params_schema,
        "figures": kind.params_schema,
        "constraints": kind.constraints_schema,
    }.get(root, {})
    return of_schema(schema).get(name, "")


def _stated(schema: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """Everything that a schema states about a property, through local references and `allOf`."""
    for one in list_bounds.members(schema, name, schema):
        yield from list_bounds.parts(one, schema)


def _is_number(stated: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a value can be nothing but a number, or null."""
    types = [part["type"] for part in stated if "type" in part]
    named = {name for one in types for name in (one if isinstance(one, list) else [one])}
    return bool(named & _NUMBERS) and named <= _NUMBERS | {"null"}


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return f'"{text[:40]}"'
