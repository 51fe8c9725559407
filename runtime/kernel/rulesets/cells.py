"""The cells of decision tables: unary tests, read once into sets and intervals.

A cell is `-` (anything), a literal, a comparison (`>= 700`), an interval (`[600..700)`), a list of these, or
`not(...)` of one. Anything else is CEL with `?` for the input, whose answer is not known before it is asked.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.contracts.ruleset import FeatureType
from runtime.kernel.rules import cel_tokens
from runtime.kernel.rules.language import ExpressionError, compile_expression

INPUT = "input"
# Of a number that is refused, so many digits are shown.
MAX_SHOWN = 40
Value = bool | int | float | str

_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_TEXT = r"'[^']*'|\"[^\"]*\""
_WORD = r"[A-Za-z_][A-Za-z0-9_-]*"
_COMPARED = re.compile(rf"(<=|>=|<|>)\s*({_NUMBER})")
_INTERVAL = re.compile(rf"([\[(])\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*([\])])")
_NOT = re.compile(r"not\s*\((.*)\)", re.DOTALL)
_PARTS = re.compile(rf"(?:[\[(]\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*[\])]|{_TEXT}|[^,'\"])+")


class CellError(ValueError):
    """A cell that cannot be read; the message is for the author of the table."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between two bounds; None is no bound."""

    low: int | float | None
    has_low: bool
    high: int | float | None
    has_high: bool

    def holds(self, value: Any) -> bool:
        """Whether a number is within."""
        above = self.low is None or value > self.low or (self.has_low and value == self.low)
        return above and (self.high is None or value < self.high or (self.has_high and value == self.high))


@dataclass(frozen=True, slots=True)
class Test:
    """A cell as it was read: what it allows, or what it excludes; or the CEL that has to be asked."""

    values: frozenset[Value] = frozenset()
    intervals: tuple[Interval, ...] = ()
    is_negated: bool = False
    is_anything: bool = False
    expression: str = ""

    def holds(self, value: Value) -> bool:
        """Whether the cell allows a value of its feature's type. Not for a cell that is CEL."""
        if self.is_anything:
            return True
        found = value in self.values or any(interval.holds(value) for interval in self.intervals)
        return found != self.is_negated


def is_empty(interval: Interval) -> bool:
    """Whether no number is within."""
    if interval.low is None or interval.high is None or interval.low < interval.high:
        return False
    return interval.low > interval.high or not (interval.has_low and interval.has_high)


ANYTHING = Test(is_anything=True)


def parse(cell: str, feature: FeatureType) -> Test:
    """Read a cell of a column of this type.

    Raises:
        CellError: when it is no test of such a value.
    """
    text = cell.strip()
    if text == "-":
        return ANYTHING
    if not text.startswith("?"):
        excluded = _NOT.fullmatch(text)
        try:
            return _list(excluded[1] if excluded else text, feature, is_negated=excluded is not None)
        except CellError:
            if "?" not in text:
                raise
    return Test(expression=_expression(text))


def _expression(text: str) -> str:
    """The CEL of a cell: `?` is the input; a single one in front may also only mark the cell."""
    candidates = [_named(text)]
    if text.startswith("?"):
        candidates.append(text[1:].strip())
    for source in candidates:
        try:
            compile_expression(source)
        except ExpressionError:
            continue
        return source
    raise CellError("it cannot be read as CEL, in which ? is the input")


def _named(text: str) -> str:
    """The text with the input's name for each `?` outside its texts."""
    marks = {token.at for token in cel_tokens.tokenize(text) if token.text == "?"}
    return "".join(f"{INPUT} " if at in marks else char for at, char in enumerate(text)).strip()


def _list(text: str, feature: FeatureType, *, is_negated: bool) -> Test:
    values: set[Value] = set()
    intervals: list[Interval] = []
    for part in _split(text):
        interval = _interval(part, feature)
        if interval is None:
            values.add(_literal(part, feature))
        else:
            intervals.append(interval)
    return Test(frozenset(values), tuple(intervals), is_negated)


def _split(text: str) -> Iterator[str]:
    at = 0
    while True:
        found = _PARTS.match(text, at)
        if found is None or not found[0].strip():
            raise CellError("it is no literal, comparison, interval, list, not(...) or CEL with ?")
        yield found[0].strip()
        at = found.end()
        if at == len(text):
            return
        if text[at] != ",":
            raise CellError("a text in it does not end")
        at += 1


def _interval(part: str, feature: FeatureType) -> Interval | None:
    if (compared := _COMPARED.fullmatch(part)) is not None:
        found = _half_line(compared[1], number(compared[2]))
    elif (between := _INTERVAL.fullmatch(part)) is not None:
        found = Interval(number(between[2]), between[1] == "[", number(between[3]), between[4] == "]")
        if is_empty(found):
            raise CellError("the interval is empty")
    else:
        return None
    if feature not in (FeatureType.INTEGER, FeatureType.NUMBER):
        raise CellError(f"only numbers have an order, and the feature is a {feature}")
    return found


def _half_line(sign: str, bound: int | float) -> Interval:
    has = sign.endswith("=")
    if sign.startswith(">"):
        return Interval(bound, has, None, False)
    return Interval(None, False, bound, has)


def _literal(part: str, feature: FeatureType) -> Value:
    readers: dict[FeatureType, tuple[str, Callable[[str], Value]]] = {
        FeatureType.BOOLEAN: ("true|false", lambda text: text == "true"),
        FeatureType.STRING: (f"{_TEXT}|{_WORD}", _text),
        FeatureType.NUMBER: (_NUMBER, number),
        FeatureType.INTEGER: ("-?(?:0|[1-9][0-9]*)", number),
    }
    pattern, read = readers[feature]
    if re.fullmatch(pattern, part) is None:
        raise CellError(f"{part} is no {feature}, and no other test of one")
    return read(part)


def _text(part: str) -> str:
    return part[1:-1] if part[0] in "'\"" else part


def number(text: str) -> int | float:
    """A number as JSON readers have it: whole ones as integers.

    Raises:
        CellError: for one that not every reader has exactly.
    """
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if abs(value) > canonical.MAX_SAFE_INTEGER:
        raise CellError(f"{text[:MAX_SHOWN]} is no number that is exact everywhere")
    return int(value) if value == int(value) else value
