"""The typed form of a kind: one field per parameter of its JSON Schema, prefilled as proposed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.core.views import labels
from runtime.kernel import units
from runtime.kernel.rules import kind_units

PREFIX = "param:"
_TYPES = {"integer": "number", "number": "number", "boolean": "select", "string": "text"}


@dataclass(frozen=True, slots=True)
class Field:
    """One control. `attributes` are those of the HTML input; `json_type` is the type in the schema.

    `unit` is what the value counts, as the schema names it. `amount` is the value for people where they read
    it in another unit: 473382 of `cents USD` are 4,733.82 USD; None where they do not.
    """

    name: str
    label: str
    control: str
    value: str
    proposed: str
    options: Sequence[tuple[str, bool]]
    attributes: Mapping[str, str]
    required: bool
    hint: str
    json_type: str
    unit: str = ""
    amount: str | None = None

    @property
    def is_long(self) -> bool:
        """Whether it needs a control of several lines: a line of text would lose the ends of lines."""
        return self.control == "text" and any(
            len(text.splitlines()) > 1 for text in (self.value, self.proposed)
        )

    @property
    def described_by(self) -> str:
        """The ids of the elements that describe the control."""
        parts = {"unit": self.unit, "hint": self.hint}
        return " ".join(f"{self.name}-{part}" for part, text in parts.items() if text)


def fields(
    schema: Mapping[str, Any], params: Mapping[str, Any], posted: Mapping[str, str] | None
) -> list[Field]:
    """Return controls for the schema's properties, required ones first; nested values need the JSON field."""
    required, units_of = list(schema.get("required") or ()), kind_units.of_schema(schema)
    properties = schema.get("properties") or {}
    made = []
    # Stored schemas have sorted keys; show required ones first.
    for name, part in sorted(properties.items(), key=lambda item: item[0] not in required):
        kind = _kind_of(part)
        if kind is None or "\x00" in name:
            continue
        proposed = params.get(name)
        enum = ["true", "false"] if kind == "boolean" else [_text(item) for item in part.get("enum") or ()]
        shown = "" if proposed is None else _text(proposed)
        value = shown if posted is None else posted.get(f"{PREFIX}{name}", "")
        # The constraints that an HTML input can express; the gate checks all of them again.
        names = {"minimum": "min", "maximum": "max", "minLength": "minlength", "maxLength": "maxlength"}
        attributes = {
            html: str(part[json]) for json, html in names.items() if isinstance(part.get(json), int)
        }
        if kind == "number":
            attributes["step"] = "any"
        if kind == "integer":
            attributes["inputmode"] = "numeric"
        unit = units_of.get(name, "")
        measure = units.parse(unit) if unit else None
        amount = None
        if isinstance(measure, units.Unit):
            # A script writes what is typed in the same way.
            attributes |= {"data-unit": measure.name, "data-shift": str(measure.shift)}
            attributes["data-decimals"] = str(measure.decimals)
            amount = labels.amount_in(value, unit) if measure.shift else None
        made.append(
            Field(
                name=f"{PREFIX}{name}",
                label=str(part.get("title") or name.replace("_", " ")),
                control="select" if enum else _TYPES[kind],
                value=value,
                proposed=shown,
                options=[(item, item == value) for item in enum],
                attributes=attributes,
                required=name in required,
                hint=str(part.get("description") or ""),
                json_type=kind,
                unit=unit,
                amount=amount,
            )
        )
    return made


def _kind_of(part: Any) -> str | None:
    """Return the one simple type of a property, or None for a nested or mixed one."""
    if not isinstance(part, dict):
        return None
    kind = part.get("type")
    named = [item for item in kind if item != "null"] if isinstance(kind, list) else [kind]
    if named == [None] and isinstance(part.get("enum"), list):
        return "string"
    return named[0] if len(named) == 1 and named[0] in _TYPES else None


def _text(value: Any) -> str:
    """Return a value as its control shows it: text as is, everything else as JSON."""
    return value if isinstance(value, str) else canonical.encode(value).decode()
