"""Text with `${CEL}` in it: fact paths and request paths.

A value put into a template never changes what the template is about: it stays inside one segment of a
fact path, and inside one segment of a request path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runtime.kernel.rules import cel_tokens, language
from runtime.kernel.rules.language import ErrorCode, ExpressionError

_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_PATH_TEXT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*", re.ASCII)
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*", re.ASCII)
_MAX_PATH_CHARS = 2000
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: literal text, or the source of an expression."""

    text: str
    is_expression: bool


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Part, ...]:
    """The parts of a template; neighbouring text is one part, empty text none.

    Raises:
        ExpressionError: SYNTAX, for a `${` that never ends or holds nothing.
    """
    parts: list[Part] = []
    at = 0
    while (start := template.find("${", at)) >= 0:
        if start > at:
            parts.append(Part(text=template[at:start], is_expression=False))
        end = _end_of_expression(template, start + 2)
        parts.append(Part(text=template[start + 2 : end].strip(), is_expression=True))
        at = end + 1
    if at < len(template):
        parts.append(Part(text=template[at:], is_expression=False))
    return tuple(parts)


def expressions(template: str) -> tuple[str, ...]:
    """The sources of the expressions in a template.

    Raises:
        ExpressionError: SYNTAX.
    """
    return tuple(part.text for part in parse(template) if part.is_expression)


def static_selector(template: str) -> str:
    """What is known of a fact path before its values are known: the exact path, or its namespace.

    `market.state` stays as it is, `price.${params.symbol}` becomes `price.`.

    Raises:
        ExpressionError: SYNTAX, or UNSAFE_VALUE when the namespace is not literal.
    """
    namespace, rest = _split_fact_path(template)
    if any(part.is_expression for part in rest):
        return f"{namespace}."
    return f"{namespace}.{_matching(_SEGMENT, ''.join(part.text for part in rest))}"


def selects(selector: str, path: str) -> bool:
    """Whether an exact path or a namespace (`price.`) covers `path`."""
    return path.startswith(selector) if selector.endswith(".") else path == selector


def fact_path(template: str, names: Mapping[str, Any]) -> str:
    """The fact path of a template over `names`: always two segments, the first always the literal one.

    Raises:
        ExpressionError: UNSAFE_VALUE for a value with dots or other characters that a segment lacks.
    """
    namespace, rest = _split_fact_path(template)
    return f"{namespace}.{_matching(_SEGMENT, ''.join(_filled(part, names) for part in rest))}"


def request_path(template: str, names: Mapping[str, Any]) -> str:
    """The path of a request, its values percent-encoded.

    Raises:
        ExpressionError: UNSAFE_VALUE for an empty value, for a path that a client would resolve elsewhere
            (`..`, `//`) and for literal characters that a path may not hold.
    """
    path = "".join(
        percent_encode(_filled(part, names)) if part.is_expression else _matching(_PATH_TEXT, part.text)
        for part in parse(template)
    )
    segments = path.split("?", 1)[0].split("/")
    if segments[0] or len(path) > _MAX_PATH_CHARS or "" in segments[1:-1] or {".", ".."} & set(segments):
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return path


def name(template: str, names: Mapping[str, Any]) -> str:
    """The name that a template makes of its values, such as `order:881`.

    Raises:
        ExpressionError: UNSAFE_VALUE for an empty value and for a name of more than 200 characters, or with
            a character that nobody can see.
    """
    made = "".join(_filled(part, names) for part in parse(template))
    if len(made) > _MAX_NAME_CHARS or not made.isprintable():
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return made


def percent_encode(text: str) -> str:
    """Every byte outside the unreserved characters of RFC 3986 as %XX.

    Raises:
        ExpressionError: UNSAFE_VALUE for text with lone surrogates.
    """
    if _UNRESERVED.fullmatch(text):
        return text  # almost all values: no look at each byte
    try:
        body = text.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(ErrorCode.UNSAFE_VALUE) from error
    return "".join(chr(byte) if _UNRESERVED.fullmatch(chr(byte)) else f"%{byte:02X}" for byte in body)


def _end_of_expression(template: str, start: int) -> int:
    depth = 0
    for token in cel_tokens.tokenize(template[start:]):
        if token.text == "{":
            depth += 1
        elif token.text == "}" and depth:
            depth -= 1
        elif token.text == "}" and template[start : start + token.at].strip():
            return start + token.at
        elif token.text == "}":
            break
    raise ExpressionError(ErrorCode.SYNTAX)


@lru_cache(maxsize=4096)
def _split_fact_path(template: str) -> tuple[str, tuple[Part, ...]]:
    parts = parse(template)
    head = parts[0] if parts else Part(text="", is_expression=True)
    namespace, dot, start = head.text.partition(".")
    if head.is_expression or not dot:
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    rest = (Part(text=start, is_expression=False), *parts[1:])
    return _matching(_SEGMENT, namespace), rest


def _filled(part: Part, names: Mapping[str, Any]) -> str:
    if not part.is_expression:
        return part.text
    value = language.text(part.text, names)
    if not value:
        # An empty value would silently name another fact, or another resource.
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return value


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return text
