"""I-JSON (RFC 7493): bytes from outside -> checked value -> canonical bytes.

Stricter than any framework's parser on purpose: what is stored, hashed and judged is what was sent. An
offence is found with its place, and no answer takes longer than reading the body does.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from audit import canonical
from runtime.contracts.problem import Problem, ProblemError, Violation
from runtime.contracts.problem_codes import ProblemCode

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000  # members and items together: bounds what every later reader has to walk
_LONGEST_INTEGER: Final = 17
_MAX_KEY_SHOWN: Final = 100
# Surrogates and noncharacters (RFC 7493, 2.1), and NUL, which PostgreSQL cannot store in text.
_FORBIDDEN: Final = re.compile(
    "[\x00\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr((plane << 16) | 0xFFFE)}{chr((plane << 16) | 0xFFFF)}" for plane in range(17))
    + "]"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A body that is I-JSON: its value, integral numbers as integers, and its canonical bytes."""

    value: Any
    canonical: bytes


@dataclass(frozen=True, slots=True)
class _Offence:
    """Stands in the parsed value for what I-JSON forbids, so that the walk finds its place."""

    words: str


_TOO_BIG = _Offence("must be a number within +-(2^53-1); send larger ones as a string")
_NOT_A_NUMBER = _Offence("NaN and Infinity are not JSON; leave the field out or send null")
_VANISHING = _Offence("is too small a number to be kept; send it as a string")


def parse(raw: bytes) -> Checked:
    """The checked value of JSON bytes.

    Raises:
        ProblemError: 413 for a body over MAX_BYTES, 400 for anything that is not I-JSON.
    """
    if len(raw) > MAX_BYTES:
        raise too_large()
    if raw.startswith(b"\xef\xbb\xbf"):
        raise malformed("The body starts with a byte order mark. Send UTF-8 without one.")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise malformed("The body is not UTF-8. Encode it as UTF-8.") from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=lambda name: _NOT_A_NUMBER,
        )
    except RecursionError:
        raise malformed(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except json.JSONDecodeError as error:
        raise malformed(f"The body is not JSON at line {error.lineno}, column {error.colno}.") from None
    for pointer, words in _offences(value, "", 1, _Count()):
        raise malformed("The body is not I-JSON (RFC 7493).", pointer=pointer, words=words)
    return Checked(value=value, canonical=canonical.encode(value))


def _members(pairs: list[tuple[str, Any]]) -> Any:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    times = Counter(key for key, _ in pairs)
    repeated = next(key for key, count in times.items() if count > 1)
    return _Offence(f"holds the key {_shown(repeated)} more than once")


def _integer(digits: str) -> int | _Offence:
    # Refused by length first: converting thousands of digits takes quadratic time.
    if len(digits) > _LONGEST_INTEGER:
        return _TOO_BIG
    value = int(digits)
    return value if abs(value) <= canonical.MAX_SAFE_INTEGER else _TOO_BIG


def _number(text: str) -> int | float | _Offence:
    value = float(text)
    if abs(value) > canonical.MAX_SAFE_INTEGER:
        return _TOO_BIG
    if value == 0 and re.search("[1-9]", re.split("[eE]", text, maxsplit=1)[0]):
        return _VANISHING
    return int(value) if value.is_integer() else value


@dataclass(slots=True)
class _Count:
    values: int = 0


def _offences(value: Any, pointer: str, depth: int, count: _Count) -> Iterator[tuple[str, str]]:
    """Where the parsed value holds what I-JSON forbids, is too deep or too large, and in which words."""
    if isinstance(value, _Offence):
        yield pointer, value.words
    elif isinstance(value, str):
        if not _is_clean(value):
            yield pointer, "holds a lone surrogate, a noncharacter or NUL"
    elif isinstance(value, dict | list):
        count.values += len(value)
        if depth > MAX_DEPTH:
            yield pointer, f"is nested deeper than {MAX_DEPTH} levels"
        elif count.values > MAX_VALUES:
            yield pointer, f"brings the body over {MAX_VALUES} members and items"
        else:
            for key, member in value.items() if isinstance(value, dict) else enumerate(value):
                kind = type(member)
                if isinstance(key, str) and not _is_clean(key):
                    yield pointer, "has a key with a lone surrogate, a noncharacter or NUL"
                # Numbers, true, false and null need no look: most of a large body is skipped here.
                if kind is int or kind is float or kind is bool or member is None:
                    continue
                if kind is str and _is_clean(member):
                    continue
                place = f"{pointer}/{_shown(key) if isinstance(key, str) else key}"
                yield from _offences(member, place, depth + 1, count)


def _is_clean(text: str) -> bool:
    return "\x00" not in text if text.isascii() else _FORBIDDEN.search(text) is None


def _shown(key: str) -> str:
    # An error document must be sendable: a bad key is shown with its bad characters escaped.
    escaped = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", key[:_MAX_KEY_SHOWN])
    return escaped.replace("~", "~0").replace("/", "~1")


def malformed(detail: str, *, pointer: str = "", words: str = "") -> ProblemError:
    """400: the body is no I-JSON."""
    violations = (Violation(pointer=pointer, message=words),) if words else ()
    return ProblemError(Problem(code=ProblemCode.INVALID_JSON, detail=detail, violations=violations))


def too_large() -> ProblemError:
    """413: the body is over MAX_BYTES."""
    detail = f"The body is larger than {MAX_BYTES:,} bytes. Send less."
    return ProblemError(Problem(code=ProblemCode.BODY_TOO_LARGE, detail=detail))
