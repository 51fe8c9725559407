"""What an expression may be, checked at save: known names and fields, bounded size and cost.

The library shows no tree, so this reads tokens. It errs on the strict side: what it cannot follow it
refuses, in a sentence that tells what to write instead.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.contracts.kind_types import MAX_EXPRESSION_CHARS
from runtime.kernel.rules import cost, list_bounds, scope, shapes, tree
from runtime.kernel.rules.cel_tokens import CelToken, TokenKind, is_macro_call, tokenize
from runtime.kernel.rules.language import Expression, ExpressionError
from runtime.kernel.rules.shapes import Shape

MAX_NESTED_MACROS = 2
MAX_MACROS = 8
MAX_LIST_ITEMS = 200
# The library builds lists by copying: a `map` inside another macro costs items of the outer one times
# the square of its own (200 and 200 items took five seconds).
MAX_INNER_BUILT_ITEMS = 50
# Nanoseconds that an expression of a kind may take at worst, from its tree and the schemas: see `cost`.
MAX_WORK = 50_000_000
# A stored expression above this is no longer evaluated: it could block all other work.
STOPPING_WORK = 500_000_000

FUNCTIONS = frozenset({"has", "size", "int", "double", "string", "type", "dyn", "timestamp", "duration"})
METHODS = frozenset(
    {"size", "contains", "startsWith", "endsWith", "matches"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)
_CONSTANTS = frozenset({"true", "false", "null", "in"})
_TYPES = frozenset({"int", "double", "string", "bool", "list", "map"})
MAX_SHOWN = 60
_COLUMN = re.compile(r"<input>:\d+:(\d+)")


@dataclass(slots=True)
class _Walk:
    """The state of one reading from left to right."""

    tokens: tuple[CelToken, ...]
    allowed: frozenset[str]
    schemas: Mapping[str, Mapping[str, Any]]
    namespaces: frozenset[str] | None
    found: list[str] = field(default_factory=list)
    # One entry per open bracket: the macro's bound name and the schema of its items, or None.
    open: list[tuple[str, list_bounds.Range] | None] = field(default_factory=list)
    macros: int = 0

    def say(self, sentence: str) -> None:
        if sentence not in self.found:
            self.found.append(sentence)

    def bound(self) -> dict[str, list_bounds.Range]:
        return dict(frame for frame in self.open if frame is not None)

    def text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""


@dataclass(frozen=True, slots=True)
class Linted:
    """What is wrong with an expression, as plain sentences; and nanoseconds that it takes at worst.

    `stops` are those of the sentences that must keep it from being evaluated at all: it is unknown how long
    it would take, or it takes too long, and meanwhile nothing else runs.
    """

    found: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    work: int = 0


def lint_expression(
    source: str,
    *,
    names: frozenset[str],
    params_schema: Mapping[str, Any] | None = None,
    constraints_schema: Mapping[str, Any] | None = None,
    namespaces: frozenset[str] | None = None,
    figures: frozenset[str] | None = None,
) -> list[str]:
    """What is wrong with an expression, as plain sentences; empty when it may be saved; see `lint`."""
    linted = lint(
        source,
        names=names,
        params_schema=params_schema,
        constraints_schema=constraints_schema,
        namespaces=namespaces,
        figures=figures,
    )
    return list(linted.found)


def lint(
    source: str,
    *,
    names: frozenset[str],
    params_schema: Mapping[str, Any] | None = None,
    constraints_schema: Mapping[str, Any] | None = None,
    namespaces: frozenset[str] | None = None,
    figures: frozenset[str] | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    most: int = MAX_WORK,
) -> Linted:
    """What is wrong with an expression, and what it costs.

    `names` are the names it may use. With the kind's schemas, fields of `params` and `constraints` must
    be declared in them; with `namespaces`, `context.facts` has these and no others; and so with `figures`.
    `others` are the schemas of further names. `most` nanoseconds is what it may take.
    """
    if len(source) > MAX_EXPRESSION_CHARS:
        said = f"the expression is longer than {MAX_EXPRESSION_CHARS} characters"
        return Linted(found=(said,), stops=(said,), work=cost.TOO_MUCH)
    try:
        Expression(source)
    except ExpressionError as error:
        column = _COLUMN.search(str(error.__cause__))
        # It gives SYNTAX at once, whoever evaluates it: this stops nothing.
        said = "the expression cannot be read as CEL" + (f" at character {column[1]}" if column else "")
        return Linted(found=(said,))
    given: dict[str, Mapping[str, Any] | None] = {
        "params": params_schema,
        "constraints": constraints_schema,
        "figures": None if figures is None else {"properties": {name: {} for name in figures}},
        **(others or {}),
    }
    walk = _Walk(
        tokens=tokenize(source),
        allowed=names,
        schemas={name: schema for name, schema in given.items() if schema is not None},
        namespaces=namespaces,
    )
    for at, token in enumerate(walk.tokens):
        _read(walk, at, token)
    if walk.macros > MAX_MACROS:
        walk.say(f"the expression has more than {MAX_MACROS} macros")
    sizes = scope.sizes(params_schema=params_schema, constraints_schema=constraints_schema)
    sizes |= {name: shapes.of_schema(schema, schema) for name, schema in (others or {}).items()}
    return _weighed(walk, sizes, most)


def _weighed(walk: _Walk, sizes: Mapping[str, Shape], most: int) -> Linted:
    """The same with what the expression costs, and why it costs too much."""
    try:
        work, reading = cost.of(tree.parse(walk.tokens), sizes)
    except tree.UnreadableError:
        stop = "the expression is written in a way whose cost cannot be told; write it simpler"
        return Linted(found=(*walk.found, stop), stops=(stop,), work=cost.TOO_MUCH)
    for pattern in reading.repeated:
        walk.say(f"the pattern {pattern!r} of matches is inside a macro, where it is compiled for each item")
    for place, lacks in reading.unbounded.items():
        walk.say(f"{place} is read in a macro and has no size limit: {lacks.format(place)}")
    shown = [one if len(one) <= MAX_SHOWN else one[:MAX_SHOWN] + "..." for one in reading.too_slow if one]
    heavy = [
        f"the pattern {one!r} takes more than a millisecond to compile, or holds what is not known here; "
        r"write [A-Za-z0-9_] in place of \w, [0-9] in place of \d, and smaller counts"
        for one in shown
    ]
    if work >= cost.TOO_MUCH and not heavy:
        heavy.append("the pattern of matches must be written out: otherwise nobody can say what it costs")
    elif most < work < cost.TOO_MUCH:
        said = f"the expression may take {work / 1e6:,.0f} ms, and {most / 1e6:,.0f} ms is the most"
        advice = [lacks.format(place) for place, lacks in reading.large()]
        heavy.append(f"{said}: {'; '.join(advice) or 'shorten its lists, or nest fewer macros'}")
    for sentence in heavy:
        walk.say(sentence)
    is_stopping = work > max(most, STOPPING_WORK)
    return Linted(found=tuple(walk.found), stops=tuple(heavy) if is_stopping else (), work=work)


def _read(walk: _Walk, at: int, token: CelToken) -> None:
    before = walk.tokens[at - 1] if at else None
    is_type_name = before is not None and before.kind is TokenKind.NAME and before.text not in _CONSTANTS
    ends_a_value = before is not None and (before.kind is not TokenKind.PUNCT or before.text in ")]}")
    if token.kind is TokenKind.OTHER:
        walk.say(f"the character {token.text!r} is not allowed in an expression")
    elif token.kind is TokenKind.NAME:
        _read_name(walk, at, token.text)
    elif token.text in "([{":
        if token.text == "{" and is_type_name:
            walk.say("objects of a named type are not supported; use a map")
        walk.open.append(_frame(walk, at))
    elif token.text in ")]}" and walk.open:
        walk.open.pop()
    elif token.text == "." and not ends_a_value:
        walk.say("a name may not start with a dot")


def _frame(walk: _Walk, at: int) -> tuple[str, list_bounds.Range] | None:
    """What an opening bracket opens: for a macro its bound name and range, after checking both."""
    if not is_macro_call(walk.tokens, at - 1):
        return None
    macro, name = walk.text(at - 1), walk.text(at + 1)
    walk.macros += 1
    schemas = {"history": scope.HISTORY_SCHEMA, "labels": scope.LABELS_SCHEMA, **walk.schemas}
    found = list_bounds.find(walk.tokens, at - 1, schemas=schemas, bound=walk.bound())
    depth = 1 + len(walk.bound())
    if depth > MAX_NESTED_MACROS:
        walk.say(f"macros are nested deeper than {MAX_NESTED_MACROS}")
    if name in walk.allowed or name in walk.bound():
        walk.say(f"the macro {macro} binds the name {name}, which is already in use")
    limit = MAX_INNER_BUILT_ITEMS if depth > 1 and macro in {"map", "filter"} else MAX_LIST_ITEMS
    if found.max_items is None:
        walk.say(f"macro {macro} iterates over {found.text}, which is not a list with maxItems in a schema")
    elif found.max_items > limit:
        walk.say(f"macro {macro} iterates over {found.text}, whose maxItems is above {limit}")
    return name, found


def _read_name(walk: _Walk, at: int, name: str) -> None:
    is_member, is_call = walk.text(at - 1) == ".", walk.text(at + 1) == "("
    is_binding = walk.text(at - 1) == "(" and is_macro_call(walk.tokens, at - 2)
    if is_call and is_macro_call(walk.tokens, at):
        return
    if is_call:
        known = METHODS if is_member else FUNCTIONS
        is_written_out = walk.text(at + 3) == ")" and walk.tokens[at + 2].kind is TokenKind.STRING
        if name not in known:
            walk.say(f"the function {name} is not known; known functions: {', '.join(sorted(known))}")
        elif name == "matches" and not is_written_out:
            walk.say("the pattern of matches must be written out, not computed")
    elif not is_member and name not in _CONSTANTS and not is_binding:
        if name in walk.bound() or (name in _TYPES and name not in walk.allowed):
            return
        if name not in walk.allowed:
            walk.say(f"the name {name} is not known here; known names: {', '.join(sorted(walk.allowed))}")
            return
        _read_fields(walk, at, name)


def _read_fields(walk: _Walk, at: int, root: str) -> None:
    """Check the field right below a known name, and the namespace below `context.facts`."""
    if root in walk.schemas:
        step = list_bounds.step_after(walk.tokens, at + 1)
        if step is None:
            return
        if step.name is None:
            walk.say(f"{root} is read with a computed field name; write {root}.name")
        elif step.name not in list_bounds.property_names(walk.schemas[root]):
            walk.say(f"{root}.{step.name} is not a field of the {root} schema")
    elif root in scope.FIELDS:
        name = _dotted(walk, at)
        if name is None:
            walk.say(f"{root} is not read as {root}.name; write it so, in one piece")
        elif name not in scope.FIELDS[root]:
            known = ", ".join(sorted(scope.FIELDS[root]))
            walk.say(f"{root}.{name} is not known; {root} has {known}")
        elif (root, name) == ("context", "facts"):
            namespace = _dotted(walk, at + 2)
            if namespace is None:
                walk.say("context.facts is not read as context.facts.name; write it so, in one piece")
            elif walk.text(at + 5) == "." and walk.text(at + 7) == "(":
                walk.say(f"context.facts.{namespace} has no methods; write size(context.facts.{namespace})")
            elif walk.namespaces is not None and namespace not in walk.namespaces:
                walk.say(
                    f"context.facts.{namespace} is read, "
                    f"but no depends_on or predicts names a fact of {namespace}"
                )


def _dotted(walk: _Walk, at: int) -> str | None:
    """The name in `.name` directly after `tokens[at]`, without spaces; None for anything else.

    What is loaded for a case is derived from the text of the expressions, so the text must be plain.
    """
    if at + 2 >= len(walk.tokens) or walk.text(at + 3) == "(":
        return None
    first, dot, name = walk.tokens[at : at + 3]
    is_plain = dot.text == "." and name.kind is TokenKind.NAME
    is_close = dot.at == first.at + len(first.text) and name.at == dot.at + 1
    return name.text if is_plain and is_close else None
