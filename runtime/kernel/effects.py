"""The effect sentence: what will happen, in the runtime's words around the agent's values.

A template is text with `{name}` or `{name|filter}`; names are the kind's parameters. The result is a tuple
of segments, so that a page can isolate each value; a value can never look like the sentence around it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from audit import canonical

Segment = tuple[str] | tuple[str, str] | tuple[str, str, str]
MAX_VALUE_CHARS = 80
MISSING = "(not given)"
# Letters with more marks are in no language; a pile of them is drawn over the lines around it.
MAX_MARKS = 4

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})(?:\|([a-z]+))?\}")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})  # those that take no room of their own
# Blank or joining marks that Unicode files under letters or marks.
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800") | {
    chr(point) for point in (*range(0xFE00, 0xFE10), *range(0x180B, 0x1810), *range(0xE0100, 0xE01F0))
}
_MAX_EPOCH_MS = 253_402_300_799_999  # 9999-12-31, the last moment a date can say


def lint(template: str, names: Iterable[str]) -> list[str]:
    """What is wrong with a template, as plain sentences; `names` are the parameters of the kind."""
    known = frozenset(names)
    problems = []
    for name, filter_name in _PLACE.findall(template):
        if name not in known:
            problems.append(f"the effect names {name}, which is not a parameter of the kind")
        if filter_name and filter_name not in _FILTERS:
            known_filters = ", ".join(sorted(_FILTERS))
            problems.append(f"the effect uses the filter {filter_name}; known are {known_filters}")
    rest = _PLACE.sub("", template)
    if "{" in rest or "}" in rest:
        problems.append("the effect has a brace that belongs to no {name} or {name|filter}")
    return problems


def render(template: str, params: Mapping[str, Any]) -> tuple[Segment, ...]:
    """The sentence as segments: `("text", words)` and `("value", name, shown)`.

    Never fails: what a filter cannot take is shown as it stands, what is absent as "(not given)".
    """
    segments: list[Segment] = []
    end = 0
    for place in _PLACE.finditer(template):
        if place.start() > end:
            segments.append(("text", template[end : place.start()]))
        segments.append(("value", place[1], _shown(params, place[1], place[2])))
        end = place.end()
    if end < len(template):
        segments.append(("text", template[end:]))
    return tuple(segments)


def shown_in(template: str, name: str, value: Any) -> str:
    """A value as the template writes this parameter; as it stands where the template does not name it."""
    filters = (place[2] for place in _PLACE.finditer(template) if place[1] == name)
    return _shown({name: value}, name, next(filters, None))


def plain(segments: Iterable[Segment]) -> str:
    """The sentence as one line of text."""
    return "".join(segment[-1] for segment in segments)


def visible(text: str) -> str:
    """`text` with what is invisible, turns the reading order or covers other letters as ⟨U+202E⟩.

    A mark is drawn over the letter before it. One without a letter, and the fifth on one letter, cover
    others.
    """
    if text.isascii() and text.isprintable():
        return text  # almost all text: no look at each character
    shown = []
    marks = MAX_MARKS
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if is_invisible(char) or (category == "Zs" and char != " ") or marks > MAX_MARKS:
            shown.append(f"⟨U+{ord(char):04X}⟩")
        else:
            shown.append(char)
    return "".join(shown)


def is_invisible(char: str) -> bool:
    """Whether a character draws nothing, or turns the reading order; line ends and tabs are such ones too."""
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or char in _INVISIBLE_LETTERS


def shorten(text: str, limit: int = MAX_VALUE_CHARS) -> str:
    """`text` cut in the middle to `limit` characters: both ends of an account number tell it apart."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _shown(params: Mapping[str, Any], name: str, filter_name: str | None) -> str:
    value = params.get(name)
    if value is None:
        return MISSING
    made = _FILTERS[filter_name](value) if filter_name in _FILTERS else None
    if made is None:
        made = value if isinstance(value, str) else canonical.encode(value).decode()
    return shorten(visible(made))


def _cents(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    sign = "-" if value < 0 else ""
    return f"{sign}{abs(value) // 100:,}.{abs(value) % 100:02d}"


def _number(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        decimal = Decimal(str(value))
    except InvalidOperation:
        return None
    return f"{decimal:,f}" if decimal.is_finite() and abs(decimal.adjusted()) <= MAX_VALUE_CHARS else None


def _upper(value: Any) -> str | None:
    return value.upper() if isinstance(value, str) else None


def _date(value: Any) -> str | None:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return moment.strftime("%Y-%m-%d %H:%M") + (f" {moment:%Z}" if moment.tzinfo else "")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_EPOCH_MS:
        return None
    return f"{datetime.fromtimestamp(value // 1000, UTC):%Y-%m-%d %H:%M} UTC"


_FILTERS = {"cents": _cents, "number": _number, "upper": _upper, "date": _date}
