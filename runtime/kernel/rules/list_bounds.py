"""Which list a macro goes over, and how long the schemas let it be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.kernel import schema_work
from runtime.kernel.rules.cel_tokens import CelToken, TokenKind, is_macro_call
from runtime.kernel.rules.language import Expression

_OPENING = {")": "(", "]": "[", "}": "{"}
_MAX_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class Range:
    """A list: how it is written, its bound where one is known, and the schema of its items."""

    text: str
    max_items: int | None = None
    items: Mapping[str, Any] | None = None
    root: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step into a value: `.name`, `["name"]` (or computed: None). `end` is the token after it."""

    name: str | None
    end: int


def step_after(tokens: tuple[CelToken, ...], at: int) -> PathStep | None:
    """The step that starts at `tokens[at]`, or None when none does (a method call is none)."""
    if at + 1 >= len(tokens):
        return None
    if tokens[at].text == "." and tokens[at + 1].kind is TokenKind.NAME:
        is_call = at + 2 < len(tokens) and tokens[at + 2].text == "("
        return None if is_call else PathStep(name=tokens[at + 1].text, end=at + 2)
    if tokens[at].text != "[":
        return None
    literal = tokens[at + 1].kind is TokenKind.STRING and tokens[at + 2].text == "]"
    return PathStep(name=_literal(tokens[at + 1]) if literal else None, end=at + 3)


def property_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """The fields that a schema declares at its top, through local references and `allOf`."""
    return frozenset(name for part in parts(schema, schema) for name in _mapping(part.get("properties")))


def parts(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema, what it refers to inside its document, and the members of its `allOf`."""
    waiting, seen = [schema], 0
    while waiting and seen < _MAX_REFERENCES:
        part = waiting.pop(0)
        seen += 1
        yield part
        reference, all_of = part.get("$ref"), part.get("allOf")
        others = list(all_of) if isinstance(all_of, list) else []
        if isinstance(reference, str) and reference.startswith("#/"):
            others.insert(0, schema_work.target(reference, document))
        waiting.extend(one for one in others if _mapping(one))


def members(schema: Mapping[str, Any], name: str, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a schema states about its field `name`: one schema for each part of it that declares the field."""
    named = (_mapping(part.get("properties")).get(name) for part in parts(schema, document))
    return [one for one in named if isinstance(one, dict)]


def find(
    tokens: tuple[CelToken, ...],
    at: int,
    *,
    schemas: Mapping[str, Mapping[str, Any]],
    bound: Mapping[str, Range],
) -> Range:
    """The list that the macro named at `tokens[at]` goes over, read backwards from its dot."""
    end, position, path = at - 1, at - 2, list[str | int]()
    while True:
        token = tokens[position]
        if token.kind is TokenKind.NAME and tokens[position - 1].text == "." and position > 1:
            path.insert(0, token.text)
            position -= 2
        elif token.kind is TokenKind.NAME:
            text = "".join(part.text for part in tokens[position:end])
            return _resolve(text, token.text, path, schemas, bound)
        elif token.text == "]" and _is_index(tokens, opening := _matching(tokens, position)):
            inner = tokens[opening + 1]
            is_name = position == opening + 2 and inner.kind is TokenKind.STRING
            path.insert(0, _literal(inner) if is_name else 0)
            position = opening - 1
        else:
            return _of_literal_or_chain(tokens, position, end, path, schemas=schemas, bound=bound)


def _of_literal_or_chain(
    tokens: tuple[CelToken, ...],
    position: int,
    end: int,
    path: list[str | int],
    *,
    schemas: Mapping[str, Mapping[str, Any]],
    bound: Mapping[str, Range],
) -> Range:
    """A written-out list, or the result of `filter` or `map`, both no longer than what they come from."""
    token = tokens[position]
    unknown = Range(text="something computed")
    if path or token.text not in (")", "]"):
        return unknown
    opening = _matching(tokens, position)
    if token.text == "]":
        return Range(text="a list", max_items=position - opening)
    if not is_macro_call(tokens, opening - 1) or tokens[opening - 1].text not in {"map", "filter"}:
        return unknown
    source = find(tokens, opening - 1, schemas=schemas, bound=bound)
    if tokens[opening - 1].text == "filter":
        return source
    return Range(text=source.text, max_items=source.max_items)


def _resolve(
    text: str,
    root: str,
    path: list[str | int],
    schemas: Mapping[str, Mapping[str, Any]],
    bound: Mapping[str, Range],
) -> Range:
    if root in bound:
        document, schema = bound[root].root, bound[root].items
    else:
        document = schema = schemas.get(root)
    if document is None or schema is None:
        return Range(text=text)
    for step in path:
        schema = below(schema, step, document)
        if schema is None:
            return Range(text=text)
    found = list(parts(schema, document))
    bounds = [part["maxItems"] for part in found if isinstance(part.get("maxItems"), int)]
    is_list = any(part.get("type") == "array" for part in found)
    items = next((part["items"] for part in found if isinstance(part.get("items"), dict)), None)
    return Range(text=text, max_items=min(bounds) if bounds and is_list else None, items=items, root=document)


def below(
    schema: Mapping[str, Any], step: str | int, document: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """What a schema states about a field, or (for a number) of an item."""
    for part in parts(schema, document):
        found = part.get("items") if isinstance(step, int) else _mapping(part.get("properties")).get(step)
        if isinstance(found, dict):
            return found
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _matching(tokens: tuple[CelToken, ...], closing: int) -> int:
    """Where the bracket that `tokens[closing]` closes was opened; the library has seen that they match."""
    position, depth = closing, 0
    while True:
        if tokens[position].text in _OPENING:
            depth += 1
        elif tokens[position].text in _OPENING.values():
            depth -= 1
        if depth == 0:
            return position
        position -= 1


def _is_index(tokens: tuple[CelToken, ...], opening: int) -> bool:
    before = tokens[opening - 1] if opening else None
    return (
        before is not None
        and (before.kind is TokenKind.NAME or before.text in (")", "]"))
        and before.text != "in"
    )


def _literal(token: CelToken) -> str:
    return str(Expression(token.text).evaluate({}))
