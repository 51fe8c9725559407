"""JSON Schema 2020-12 for parameters and constraints.

Remote references are off, formats are asserted, and patterns run on an engine of linear time, which
knows neither lookaround nor backreferences. Violations carry codes, pointers and words of our own: they
go into verdicts, and the library's texts change with its versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jsonschema_rs

from audit import canonical
from runtime.kernel import schema_bounds, schema_work

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_VIOLATIONS = 20
MAX_SCHEMA_BYTES = 65_536
_MAX_LISTED = 10
_MAX_QUOTED_CHARS = 60
# Half a megabyte of automaton is far beyond any honest pattern; the default is ten.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=524_288, dfa_size_limit=524_288)


@dataclass(frozen=True, slots=True, order=True)
class SchemaViolation:
    """One thing that does not fit: JSON pointer, the keyword as code, and words."""

    pointer: str
    code: str
    message: str


def check_schema(schema: Any) -> tuple[str, ...]:
    """What is wrong with a schema itself, as plain sentences; empty when it can be used."""
    try:
        body = canonical.encode(schema)
    except canonical.CanonicalError:
        return ("the schema is not plain JSON",)
    if len(body) > MAX_SCHEMA_BYTES:
        return (f"the schema is longer than {MAX_SCHEMA_BYTES} bytes",)
    if not isinstance(schema, dict):
        return ("the schema is not an object",)
    if schema.get("$schema", DIALECT) != DIALECT:
        return (f"the schema is of another dialect than {DIALECT}",)
    unbounded = schema_bounds.why_unbounded(schema)
    if unbounded:
        return (unbounded,)
    work = schema_work.compiling(schema)
    if work > schema_work.MAX_COMPILING:
        return (
            f"the patterns of the schema together may take {work / 1e6:,.0f} ms to compile, and "
            f"{schema_work.MAX_COMPILING / 1e6:,.0f} ms is the most: leave some out, or write smaller "
            "counts, [A-Za-z] in place of (?i) and of wide classes",
        )
    try:
        _compile(body)
    except jsonschema_rs.ValidationError as error:
        return (f"the schema is not usable at {pointer_of(error.instance_path)}: {_schema_words(error)}",)
    return ()


def advise(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What would make a usable schema dear to check, as plain sentences that say what to write."""
    of_forms = tuple(dict.fromkeys(schema_work.advise(schema, schema)))
    return of_forms or tuple(schema_work.advise_on_lists(schema))


@dataclass(frozen=True)
class Checker:
    """A usable schema, compiled: it checks values."""

    validator: jsonschema_rs.Draft202012Validator
    body: bytes

    @cached_property
    def work(self) -> schema_work.Size:
        """How much work a value makes."""
        schema = canonical.decode(self.body)
        return schema_work.of_schema(schema, schema)

    def violations(self, value: Any) -> tuple[SchemaViolation, ...]:
        """How `value` breaks the schema: ordered by pointer, code and words, at most MAX_VIOLATIONS.

        A value that is too large for its schema is one violation, and is not looked at; one that is merely
        large is told that it does not fit, but not where: the library makes every error before it shows one.
        """
        size = schema_work.of_value(value)
        if schema_work.is_too_much(self.work, size):
            said = f"{size.parts} values, {size.states} characters; send less at once"
            return (SchemaViolation("", "size", f"is too large for its schema: {said}"),)
        if self.validator.is_valid(value):
            return ()
        if not schema_work.is_named(self.work, size):
            said = f"does not fit the schema; with {size.parts} values it is too large to say where"
            return (SchemaViolation("", "size", said),)
        return self.violations_of_any_size(value)

    def violations_of_any_size(self, value: Any) -> tuple[SchemaViolation, ...]:
        """The same without a bound, however long it takes: for what was judged before there was one."""
        found: set[SchemaViolation] = set()
        for error in self.validator.iter_errors(value):
            found.update(_violations_of(error))
        return tuple(sorted(found)[:MAX_VIOLATIONS])

    def fits(self, value: Any) -> bool:
        """Whether `value` fits the schema; one that is too large to be checked does not."""
        size = schema_work.of_value(value)
        return not schema_work.is_too_much(self.work, size) and self.validator.is_valid(value)


def checker(schema: Mapping[str, Any]) -> Checker:
    """What checks values against a schema, kept by its canonical bytes.

    Raises:
        ValueError: when the schema is not usable, which `check_schema` would have said.
    """
    try:
        return _checker(canonical.encode(dict(schema)))
    except jsonschema_rs.ValidationError as error:
        raise ValueError("the schema is not usable") from error


def violations(schema: Mapping[str, Any], value: Any) -> tuple[SchemaViolation, ...]:
    """How `value` breaks `schema`, as `Checker.violations`; raises ValueError as `checker`."""
    return checker(schema).violations(value)


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether `value` fits `schema`, as `Checker.fits`; raises ValueError as `checker`."""
    return checker(schema).fits(value)


@lru_cache(maxsize=1024)
def _checker(body: bytes) -> Checker:
    return Checker(_compile(body), body)


@lru_cache(maxsize=1024)
def _compile(body: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        canonical.decode(body),
        validate_formats=True,
        ignore_unknown_formats=False,
        offline=True,
        pattern_options=_PATTERNS,
    )


def _violations_of(error: jsonschema_rs.ValidationError) -> list[SchemaViolation]:
    keyword = error.kind.name
    if keyword == "falseSchema" and list(error.schema_path)[-1:] == ["additionalProperties"]:
        # Without any `properties` the library reports the first field only, and not its name.
        said = "has a field that is not known"
        return [SchemaViolation(pointer_of(list(error.instance_path)), "additionalProperties", said)]
    path = list(error.instance_path)
    details = error.kind.as_dict()
    if keyword == "required":
        path = [*path, details["property"]]
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        names = sorted(details["unexpected"])
        return [
            SchemaViolation(pointer=pointer_of([*path, name]), code=keyword, message="is not a known field")
            for name in names[:MAX_VIOLATIONS]
        ]
    return [SchemaViolation(pointer=pointer_of(path), code=keyword, message=_words(keyword, details))]


def _words(keyword: str, details: Mapping[str, Any]) -> str:
    limit = details.get("limit")
    match keyword:
        case "type":
            return f"must be {' or '.join(sorted(details['types']))}"
        case "enum":
            shown = ", ".join(_quoted(option) for option in details["options"][:_MAX_LISTED])
            more = " ..." if len(details["options"]) > _MAX_LISTED else ""
            return f"must be one of {shown}{more}"
        case "const":
            return f"must be {_quoted(details['expected_value'])}"
        case "multipleOf":
            return f"must be a multiple of {_quoted(details['multiple_of'])}"
        case "pattern":
            return f"must match the pattern {_quoted(details['pattern'])}"
        case "format":
            return f"must be a {details['format']}"
        case _:
            template = _PLAIN_WORDS.get(keyword, "does not fit the schema")
            return template.format(limit=_quoted(limit))


_PLAIN_WORDS: dict[str, str] = {
    "required": "is required",
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be more than {limit}",
    "exclusiveMaximum": "must be less than {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "minProperties": "must have at least {limit} fields",
    "maxProperties": "must have at most {limit} fields",
    "uniqueItems": "must not hold the same item twice",
    "contains": "lacks an item that the schema asks for",
    "anyOf": "fits none of the allowed forms",
    "oneOf": "must fit exactly one of the allowed forms",
    "not": "has a form that is not allowed",
    "propertyNames": "has a field name that is not allowed",
    "unevaluatedItems": "has items that are not known",
    "falseSchema": "is not allowed here",
}


def _schema_words(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name:
        case "$ref":
            return "a reference cannot be resolved; only references inside the schema are allowed"
        case "format" | "":
            return "this pattern or format is not supported (no lookaround, no backreferences, bounded size)"
        case _:
            return "this is not what JSON Schema 2020-12 has here"


def pointer_of(path: list[str | int]) -> str:
    """The JSON pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _quoted(value: Any) -> str:
    shown = canonical.encode(value).decode()
    return shown if len(shown) <= _MAX_QUOTED_CHARS else shown[:_MAX_QUOTED_CHARS] + "..."
