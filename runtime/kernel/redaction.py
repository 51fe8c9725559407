"""Replaces what a policy kind does not let into the store. Pure.

What is replaced is gone for everything that comes after: routes, writes and outcomes read the marker, too. So
what was judged is what is stored, and a replay judges the same.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.contracts.problem import ProblemError
from runtime.contracts.redaction import Kept, RedactedIn, Redaction, TextPattern
from runtime.kernel import ijson

_MARKER = re.compile(r"\[redacted: [A-Za-z][A-Za-z0-9_]{0,63}\]( \S{4})?")
_ENOUGH_TO_KEEP_4 = 12
_CARD_DIGITS = range(13, 20)
_CARD_BEGINS = "23456"
_IBAN_CHARS = range(15, 35)
_DIGITS = re.compile(r"[0-9]+(?:[ -][0-9]+)*")
_DIGIT_GROUP = re.compile(r"[0-9]+")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}")
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+'-])[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"
)
_SSN = re.compile(r"(?<![0-9-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![0-9-])")

Span = tuple[int, int]
_Find = Callable[[str], Iterator[Span]]
_LookedFor = tuple[Redaction, _Find]


@dataclass(frozen=True, slots=True)
class Redacted:
    """What may be stored, and how often each rule was applied, by its id."""

    value: Any
    times: Mapping[str, int]


def redact(value: Any, rules: Sequence[Redaction], *, source: RedactedIn) -> Redacted:
    """Apply the rules that cover `source` to a JSON value: fields first, then patterns in every text.

    Numbers are looked at as their decimal text, and names of members as texts. Rules that find nothing leave
    the value as it is.
    """
    asked = [rule for rule in rules if rule.covers(source)]
    times = Counter[str]()
    for rule in asked:
        if rule.field is not None:
            value = _at_field(value, rule.field.split("."), rule, times)
    looked_for = [(rule, _FINDERS[rule.pattern]) for rule in asked if rule.pattern is not None]
    return Redacted(value=_in_texts(value, looked_for, times) if looked_for else value, times=dict(times))


def redact_document(text: str, rules: Sequence[Redaction]) -> Redacted | None:
    """The same for the text of a receipt, such as the body of an answer.

    None where it cannot be told what is in the text: rules name fields, and it has none that can be read; or
    it is JSON that is cut, or has a name twice, and a number may stand in it behind escapes.
    """
    if not rules:
        return Redacted(value=text, times={})
    try:
        value, is_read = ijson.parse(text.encode()).value, True
    except ProblemError:
        value, is_read = text, False
    has_fields = any(rule.field is not None for rule in rules)
    if not is_read and (has_fields or text.lstrip().startswith(("{", "["))):
        return None
    taken = redact(value, rules, source=RedactedIn.RECEIPT)
    if not taken.times:
        return Redacted(value=text, times={})
    return replace(taken, value=json.dumps(taken.value, ensure_ascii=False) if is_read else taken.value)


def is_marker(value: object) -> bool:
    """Whether a value is what a rule has left in place of another."""
    return isinstance(value, str) and _MARKER.fullmatch(value) is not None


def _at_field(value: Any, path: Sequence[str], rule: Redaction, times: Counter[str]) -> Any:
    if not path:
        if value is None or is_marker(value):
            return value
        times[rule.id] += 1
        # What has members has no last characters.
        return _marker(rule, "" if isinstance(value, dict | list) else _text(value))
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {
            key: _at_field(item, rest, rule, times) if name in ("*", key) else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _at_field(item, rest, rule, times) if name in ("*", str(at)) else item
            for at, item in enumerate(value)
        ]
    return value


def _in_texts(value: Any, rules: Sequence[_LookedFor], times: Counter[str]) -> Any:
    if isinstance(value, dict):
        return {_in_text(key, rules, times): _in_texts(item, rules, times) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_texts(item, rules, times) for item in value]
    if isinstance(value, str):
        return _in_text(value, rules, times)
    if isinstance(value, bool) or value is None:
        return value
    text = _text(value)
    shown = _in_text(text, rules, times)
    return value if shown == text else shown


def _in_text(text: str, rules: Sequence[_LookedFor], times: Counter[str]) -> str:
    for rule, find in rules:
        spans = list(find(text))
        if spans:
            times[rule.id] += len(spans)
        for start, end in reversed(spans):
            text = text[:start] + _marker(rule, text[start:end]) + text[end:]
    return text


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _marker(rule: Redaction, original: str) -> str:
    """`[redacted: ID]`, with the last four letters and digits where the rule keeps them."""
    signs = re.sub(r"[^A-Za-z0-9]", "", original)
    kept = f" {signs[-4:]}" if rule.keep is Kept.LAST_4 and len(signs) >= _ENOUGH_TO_KEEP_4 else ""
    return f"[redacted: {rule.id}]{kept}"


def _find_cards(text: str) -> Iterator[Span]:
    """Whole groups of digits that together are the number of a payment card: 13 to 19, and Luhn's sum."""
    for run in _DIGITS.finditer(text):
        groups = [group.span() for group in _DIGIT_GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            last = _last_of_card(text, groups[first : first + _CARD_DIGITS[-1]])
            if last is None:
                first += 1
            else:
                yield groups[first][0], groups[first + last][1]
                first += last + 1


def _last_of_card(text: str, groups: Sequence[Span]) -> int | None:
    """The group with which a card that begins with the first one ends; of several ends the farthest."""
    for at in reversed(range(len(groups))):
        digits = "".join(text[start:end] for start, end in groups[: at + 1])
        if len(digits) in _CARD_DIGITS and digits[0] in _CARD_BEGINS and _is_luhn(digits):
            return at
    return None


def _is_luhn(digits: str) -> bool:
    """ISO/IEC 7812-1: every second digit from the right counts twice, as the sum of its own digits."""
    twice = (sum(divmod(int(digit) * 2, 10)) for digit in digits[-2::-2])
    return (sum(int(digit) for digit in digits[-1::-2]) + sum(twice)) % 10 == 0


def _find_ibans(text: str) -> Iterator[Span]:
    """International bank account numbers, told by their check digits (ISO 13616)."""
    for found in _IBAN.finditer(text):
        start, longest = found.start(), len(found[0])
        # What follows may read like a part of it: of several ends the farthest that is right.
        for end in range(start + longest, start, -1):
            if not text[end : end + 1].isalnum() and _is_iban(text[start:end]):
                yield start, end
                break


def _is_iban(text: str) -> bool:
    signs = text.replace(" ", "")
    turned = signs[4:] + signs[:4]
    return len(signs) in _IBAN_CHARS and int("".join(str(int(sign, 36)) for sign in turned)) % 97 == 1


def _find(pattern: re.Pattern[str]) -> _Find:
    return lambda text: (found.span() for found in pattern.finditer(text))


_FINDERS: Mapping[TextPattern, _Find] = {
    TextPattern.CARD_NUMBER: _find_cards,
    TextPattern.IBAN: _find_ibans,
    TextPattern.EMAIL: _find(_EMAIL),
    TextPattern.US_SSN: _find(_SSN),
}
