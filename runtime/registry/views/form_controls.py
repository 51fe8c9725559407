"""The fields of an editor's form: how each member of a document is shown as text, and read back.

A field that was not changed leaves its member exactly as it is in the document: whatever the text of a value
loses (an integer in a decimal string, an empty list beside a missing one) cannot be lost by opening the form.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Final

from audit import canonical
from runtime.core.views import labels
from runtime.kernel import units
from runtime.kernel.units import Unit
from runtime.registry.services.document_reading import Place

Texts = tuple[str, ...]
_NO_UNIT: Final = Unit(name="")
_JSON_SCALAR: Final = re.compile(r'-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false|null|"(?:[^"\\]|\\.)*"')


class Missing(Enum):
    """A member that a document does not have."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
# Before the name of a field, the unit in which its amount was shown.
SHOWN_IN: Final = "unit:"


class UnreadableError(ValueError):
    """A text that is no value of its field, with the sentence that is shown there."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """One member of a document as a field: a line of text. `place` is where it is, `mono` for code.

    `hint` says what to enter; `unit` stands behind the field; one that is `wide` has the whole width.
    """

    place: Place
    label: str
    hint: str = ""
    unit: str = ""
    mono: bool = False
    wide: bool = False
    template: ClassVar[str] = "text"
    # What a browser sends nothing for where nothing is chosen.
    is_chosen: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the field in the form."""
        return ".".join(str(step) for step in self.place)

    def show(self, value: Any) -> Texts | None:
        """The texts of the field for a value; None for a value that it cannot show."""
        if value is MISSING or value is None:
            return ("",)
        return (value,) if isinstance(value, str) else None

    def is_same(self, texts: Texts, shown: Texts) -> bool:
        """Whether a person left the field as it was shown; browsers send each end of line as two."""
        return [_ends(text) for text in texts] == [_ends(text) for text in shown]

    def read(self, texts: Texts, before: Any) -> Any:
        """The value of changed texts, or MISSING for none.

        Raises:
            UnreadableError: where the texts are no value of this field.
        """
        return texts[-1].strip() or MISSING

    def choices(self, texts: Texts) -> list[dict[str, Any]]:
        """The options of the field, with what is chosen; empty for a field to type in."""
        return []


@dataclass(frozen=True, kw_only=True)
class TextArea(Control):
    """A text of several lines, kept as typed."""

    rows: int = 3
    template: ClassVar[str] = "area"

    def read(self, texts: Texts, before: Any) -> Any:
        """The text as typed, with one character for each end of line."""
        return _ends(texts[-1]).strip() or MISSING


@dataclass(frozen=True, kw_only=True)
class Number(Control):
    """A number with a fraction, such as a confidence."""

    refusal: str = "Enter a number, such as 0.8."

    def show(self, value: Any) -> Texts | None:
        """A number in plain digits, if it has any."""
        if value is MISSING or value is None:
            return ("",)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return (canonical.encode(value).decode(),)

    def read(self, texts: Texts, before: Any) -> Any:
        """A whole number as such; any other as the number that JSON has for it."""
        number = _number(texts[-1], _NO_UNIT, self.refusal)
        if number is MISSING:
            return MISSING
        return int(number) if number == number.to_integral_value() else float(number)


@dataclass(frozen=True, kw_only=True)
class WholeNumber(Number):
    """A whole number; thousands may be separated by commas."""

    refusal: str = "Enter a whole number, such as 12."

    def show(self, value: Any) -> Texts | None:
        """A whole number with separators."""
        return (labels.number(value),) if _is_whole(value) else super().show(value)

    def read(self, texts: Texts, before: Any) -> Any:
        """The whole number."""
        number = _number(texts[-1], Unit(name=self.unit), self.refusal)
        if number is MISSING:
            return MISSING
        if number != number.to_integral_value():
            raise UnreadableError(self.refusal)
        return _exact(int(number))


@dataclass(frozen=True, kw_only=True)
class DecimalText(Control):
    """An amount that the document keeps as decimal text: `0.50`."""

    def read(self, texts: Texts, before: Any) -> Any:
        """The decimal text without separators."""
        refusal = f"Enter an amount in {self.unit}, such as 0.50."
        number = _number(texts[-1], Unit(name=self.unit), refusal)
        return MISSING if number is MISSING else f"{number:f}"


@dataclass(frozen=True, kw_only=True)
class Amount(Control):
    """An amount in the unit in which people read it: 155169 of `cents USD` is entered as `1,551.69`.

    Never a float: a whole amount is an integer, any other a decimal text. With `is_free` it may also be
    `true`, `false` or another text, for a limit that no kind compares with an amount. The form sends
    `measure` along: what was typed beside one unit is never read in another.
    """

    measure: str = ""
    is_free: bool = False

    @property
    def _unit(self) -> Unit:
        found = units.parse(self.measure) if self.measure else _NO_UNIT
        return found if isinstance(found, Unit) else _NO_UNIT

    def show(self, value: Any) -> Texts | None:
        """The amount with separators; what is no amount as it is."""
        if value is MISSING or value is None:
            return ("",)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        text = value if isinstance(value, str) else canonical.encode(value).decode()
        number = units.number_in(text)
        return (text if number is None else self._unit.digits(number),)

    def read(self, texts: Texts, before: Any) -> Any:
        """The amount as the document counts it."""
        unit, text = self._unit, texts[-1].strip()
        example = unit.write(Decimal(155169)).strip()
        if self.is_free and text and unit.read(text) is None:
            return {"true": True, "false": False}.get(text, text)
        number = _number(text, unit, f"Enter an amount as a number, such as {example}.")
        if number is MISSING:
            return MISSING
        if number == number.to_integral_value():
            return _exact(int(number))
        if unit.shift:
            raise UnreadableError(f"The smallest amount is {unit.write(Decimal(1))}: leave out what is less.")
        return f"{number:f}"


@dataclass(frozen=True, kw_only=True)
class Flag(Control):
    """Yes or no, as a box to tick."""

    template: ClassVar[str] = "flag"
    is_chosen: ClassVar[bool] = True

    def show(self, value: Any) -> Texts | None:
        """One text where it is set, none where it is not."""
        if value is MISSING or value is None:
            return ()
        return (("on",) if value else ()) if isinstance(value, bool) else None

    def read(self, texts: Texts, before: Any) -> Any:
        """True where the box is ticked."""
        return bool(texts)


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of several options; each is the value and its words. `blank` stands for none chosen."""

    options: Sequence[tuple[str, str]]
    blank: str = ""
    template: ClassVar[str] = "select"

    def read(self, texts: Texts, before: Any) -> Any:
        """The chosen option; the check refuses one that was never offered."""
        return texts[-1] or MISSING

    def choices(self, texts: Texts) -> list[dict[str, Any]]:
        """The options, with one more for a value that is none of them."""
        chosen = texts[-1] if texts else ""
        known = {value for value, _ in self.options}
        blank = [("", self.blank)] if self.blank else []
        others = [] if chosen in known or not chosen else [(chosen, f"{chosen} (unknown)")]
        return [
            {"value": value, "words": words, "is_chosen": value == chosen}
            for value, words in (*blank, *self.options, *others)
        ]


@dataclass(frozen=True, kw_only=True)
class TrueOrFalse(Choice):
    """A value that is true or false, or is not set."""

    options: Sequence[tuple[str, str]] = (("true", "yes"), ("false", "no"))
    blank: str = "not set"

    def show(self, value: Any) -> Texts | None:
        """The value in the word of JSON."""
        if value is MISSING or value is None:
            return ("",)
        return (json.dumps(value),) if isinstance(value, bool) else None

    def read(self, texts: Texts, before: Any) -> Any:
        """The value; the check would take any other text for a limit, so it is refused here."""
        if texts[-1] not in {"", "true", "false"}:
            raise UnreadableError("Choose one of the options.")
        return {"true": True, "false": False}.get(texts[-1], MISSING)


@dataclass(frozen=True, kw_only=True)
class Checkboxes(Control):
    """A list of names, each a box to tick. `notes` say more of an option, such as its title."""

    options: Sequence[str]
    notes: Mapping[str, str] = field(default_factory=dict)
    template: ClassVar[str] = "boxes"
    is_chosen: ClassVar[bool] = True

    def show(self, value: Any) -> Texts | None:
        """Each name once; none of more than one line, which a browser would send back changed."""
        if value is MISSING or value is None:
            return ()
        if not isinstance(value, list):
            return None
        if not all(isinstance(item, str) and item.splitlines() == [item] for item in value):
            return None
        return tuple(dict.fromkeys(value))

    def is_same(self, texts: Texts, shown: Texts) -> bool:
        """Whether the same boxes are ticked: a browser sends them in the order of the page."""
        return set(texts) == set(shown)

    def read(self, texts: Texts, before: Any) -> Any:
        """What stays, in the order of the document, and then what is new."""
        held = before if isinstance(before, list) else []
        kept = dict.fromkeys(item for item in held if item in texts)
        return [*kept, *(text for text in dict.fromkeys(texts) if text not in kept)]

    def choices(self, texts: Texts) -> list[dict[str, Any]]:
        """The options, and after them every ticked name that is none of them."""
        others = [text for text in dict.fromkeys(texts) if text not in self.options]
        return [
            {"value": value, "words": self.notes.get(value, ""), "is_chosen": value in texts}
            for value in (*self.options, *others)
        ]


@dataclass(frozen=True, kw_only=True)
class Lines(Control):
    """A list of texts, one in each line."""

    rows: int = 3
    template: ClassVar[str] = "area"

    def show(self, value: Any) -> Texts | None:
        """The list as lines, where each fits one."""
        if value is MISSING or value is None:
            return ("",)
        lines = self.lines_of(value)
        return None if lines is None else ("\n".join(lines),)

    def read(self, texts: Texts, before: Any) -> Any:
        """The value of all lines that are not empty; MISSING for none where the document has none."""
        made = self.read_lines([line for text in _ends(texts[-1]).splitlines() if (line := text.strip())])
        return MISSING if not made and not isinstance(before, type(made)) else made

    def lines_of(self, value: Any) -> list[str] | None:
        """The lines of a value; None for one that lines do not give back."""
        if not isinstance(value, list):
            return None
        lines = [line for item in value if (line := self.line_of(item)) is not None]
        return lines if len(lines) == len(value) else None

    def read_lines(self, lines: list[str]) -> Any:
        """The value of these lines."""
        return [self.value_of(line) for line in lines]

    def line_of(self, item: Any) -> str | None:
        """One element as a line; None for one that no line gives back."""
        if not isinstance(item, str) or not item or item.strip() != item:
            return None
        return item if item.splitlines() == [item] else None

    def value_of(self, line: str) -> Any:
        """The element of a line."""
        return line


@dataclass(frozen=True, kw_only=True)
class ScalarLines(Lines):
    """A list of texts, numbers, or true and false, one in each line; a text that looks like one is quoted."""

    def line_of(self, item: Any) -> str | None:
        """A text as it is, unless its line would be read as something else."""
        if isinstance(item, dict | list):
            return None
        plain = super().line_of(item)
        if plain is not None and _JSON_SCALAR.fullmatch(plain) is None:
            return plain
        return json.dumps(item)

    def value_of(self, line: str) -> Any:
        """The number, word or quoted text that the line states, else its text."""
        if _JSON_SCALAR.fullmatch(line) is None:
            return line
        try:
            value = json.loads(line)
        except ValueError:
            return line
        return _exact(value) if _is_whole(value) else value


@dataclass(frozen=True, kw_only=True)
class NumberLines(Lines):
    """A map of names to whole numbers, one of them in each line: `untrusted: 5`."""

    def lines_of(self, value: Any) -> list[str] | None:
        """A line for each name, where each name fits one and has a whole number."""
        if not isinstance(value, dict) or not all(_is_whole(number) for number in value.values()):
            return None
        if super().lines_of(list(value)) is None:
            return None
        return [f"{name}: {number}" for name, number in value.items()]

    def read_lines(self, lines: list[str]) -> Any:
        """The number of each name; no name may have two lines."""
        made: dict[str, int] = {}
        for line in lines:
            name, _, typed = (part.strip() for part in line.rpartition(":"))
            number = _NO_UNIT.read(typed)
            if not name or number is None or number != number.to_integral_value():
                raise UnreadableError("Enter a name and a whole number in each line, such as untrusted: 5.")
            if name in made:
                raise UnreadableError(f"{name} has a line already.")
            made[name] = _exact(int(number))
        return made


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(text: str, unit: Unit, refusal: str) -> Any:
    """The number of a text in a unit, or MISSING for an empty text."""
    if not text.strip():
        return MISSING
    found = unit.read(text)
    if found is None:
        raise UnreadableError(refusal)
    return found


def _exact(number: int) -> int:
    """A whole number that every reader of JSON gives back unrounded."""
    if abs(number) > canonical.MAX_SAFE_INTEGER:
        raise UnreadableError(f"The number is too large: the largest is {canonical.MAX_SAFE_INTEGER:,}.")
    return number


def _ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
