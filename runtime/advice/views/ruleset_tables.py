"""The decision tables of a ruleset as tables of fields, and how a table gets and loses a column."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from audit import canonical
from runtime.contracts.kind_types import ParamName
from runtime.contracts.ruleset import MAX_INPUTS, Aggregate, HitPolicy
from runtime.registry.services.document_reading import Place
from runtime.registry.views.document_form import value_at
from runtime.registry.views.form_controls import (
    MISSING,
    Choice,
    Control,
    Flag,
    Lines,
    Number,
    Texts,
    UnreadableError,
    WholeNumber,
)

# A request has at most 1,000 fields: tables beyond are left to the document.
MOST_FIELDS: Final = 900
ANYTHING: Final = "-"
_PARAMETER_NAME: Final = TypeAdapter(ParamName)


@dataclass(frozen=True, kw_only=True)
class Cell(Control):
    """A unary test. A number or a truth in the document is the literal that it looks like."""

    def show(self, value: Any) -> Texts | None:
        """The text of the cell; that of a new rule holds for anything."""
        if isinstance(value, bool | int | float):
            return (canonical.encode(value).decode(),)
        return (ANYTHING,) if value is MISSING else super().show(value)

    def read(self, texts: Texts, before: Any) -> Any:
        """The text of the test."""
        if not texts[-1].strip():
            raise UnreadableError(f"Enter a test; {ANYTHING} holds for anything.")
        return texts[-1].strip()


@dataclass(frozen=True, kw_only=True)
class Value(Control):
    """Any value: a number, true, false, or JSON as such; everything else is text, without quotes."""

    def show(self, value: Any) -> Texts | None:
        """A text as it is, unless it would be read as something else; any other value as JSON."""
        if value is MISSING:
            return ("",)
        if isinstance(value, str) and value and value.strip() == value and _value_of(value) == value:
            return (value,)
        return (json.dumps(value, ensure_ascii=False),)

    def read(self, texts: Texts, before: Any) -> Any:
        """The value; nothing where the field is empty."""
        text = texts[-1].strip()
        if not text:
            return MISSING
        value = _value_of(text)
        try:
            canonical.encode(value)
        except canonical.CanonicalError as error:
            raise UnreadableError("Not every reader has this number or text exactly.") from error
        return value


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the document that has fields: the place it is at there, and the columns of its rules.

    `feature` and `parameter` are beside the table: what its next column is to be.
    """

    at: int
    name: str
    heads: Sequence[Control]
    columns: Sequence[Control]
    feature: Choice
    parameter: Control

    @property
    def member(self) -> str:
        """What its fields begin with."""
        return f"tables.{self.at}"

    @property
    def inputs(self) -> list[Cell]:
        """The columns of its inputs, in the order of the cells of a rule."""
        return [column for column in self.columns if isinstance(column, Cell)]

    @property
    def parameters(self) -> list[Value]:
        """The columns of the parameters of its actions."""
        return [column for column in self.columns if isinstance(column, Value)]

    def refusal_of_input(self, feature: str) -> str:
        """Why a feature cannot be another input; empty where it can."""
        if any(cell.label == feature for cell in self.inputs):
            return f"{feature} is an input already."
        if len(self.inputs) >= MAX_INPUTS:
            return f"A table has at most {MAX_INPUTS} inputs."
        is_known = feature and any(value == feature for value, _ in self.feature.options)
        return "" if is_known else "Choose a feature of the ruleset."

    def refusal_of_parameter(self, name: str) -> str:
        """Why a name cannot be another parameter; empty where it can."""
        if any(column.label == name for column in self.parameters):
            return f"{name} has a column already."
        return "" if is_parameter(name) else "Enter a name of letters, digits and _, such as limit_cents."


def is_parameter(name: str) -> bool:
    """Whether a parameter may have this name."""
    try:
        _PARAMETER_NAME.validate_python(name)
    except ValidationError:
        return False
    return True


def with_input(base: Mapping[str, Any], table: Table, feature: str) -> dict[str, Any]:
    """The document with one more input of a table, of which each rule allows anything."""
    made = deepcopy(dict(base))
    changed = made["tables"][table.at]
    changed["inputs"].append(feature)
    for rule in changed["rules"]:
        rule["when"].append(ANYTHING)
    return made


def without_input(base: Mapping[str, Any], table: Table, at: int) -> dict[str, Any]:
    """The document without one input of a table and its cells."""
    made = deepcopy(dict(base))
    changed = made["tables"][table.at]
    del changed["inputs"][at]
    for rule in changed["rules"]:
        del rule["when"][at]
    return made


def without_parameter(base: Mapping[str, Any], table: Table, name: str) -> dict[str, Any]:
    """The document without one parameter of a table's actions."""
    made = deepcopy(dict(base))
    for rule in made["tables"][table.at]["rules"]:
        rule["then"].get("params", {}).pop(name, None)
    return made


def tables_of(base: Mapping[str, Any], parameters: Mapping[str, Sequence[str]]) -> Iterator[Table]:
    """The tables that fields can show, as many as a request has room for.

    `parameters` are columns of a table, by its member, that no rule of the document has yet.
    """
    found, used = base.get("tables"), 0
    for at, table in enumerate(found if isinstance(found, list) else ()):
        if not _is_shown(table):
            continue
        place = ("tables", at)
        shown = Table(
            at=at,
            name=str(table.get("table", "")),
            heads=list(_heads(place)),
            columns=list(_columns(table, parameters.get(f"tables.{at}", ()))),
            feature=_feature(place, base, table["inputs"]),
            parameter=Control(
                place=(*place, "parameter"),
                label="New parameter",
                hint="of the actions, such as limit_cents",
                mono=True,
            ),
        )
        used += len(shown.heads) + (len(shown.columns) + 1) * len(table["rules"])
        if used > MOST_FIELDS:
            return
        if all(
            control.show(value_at(rule, control.place)) is not None
            for rule in table["rules"]
            for control in shown.columns
        ) and all(control.show(value_at(base, control.place)) is not None for control in shown.heads):
            yield shown


def _is_shown(table: Any) -> bool:
    """Whether a table has inputs, and rules with a cell for each of them."""
    if not isinstance(table, dict) or not isinstance(table.get("rules"), list):
        return False
    inputs = table.get("inputs")
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        return False
    return all(
        isinstance(rule, dict)
        and isinstance(rule.get("when"), list)
        and len(rule["when"]) == len(inputs)
        and isinstance(rule.get("then"), dict)
        and isinstance(rule["then"].get("params", {}), dict)
        for rule in table["rules"]
    )


def _heads(place: Place) -> Iterator[Control]:
    hits = [(str(hit), str(hit)) for hit in HitPolicy]
    yield Choice(place=(*place, "hit"), label="Hit policy", options=hits, blank="UNIQUE, as nothing is set")
    yield Lines(
        place=(*place, "output_values"),
        label="Output values",
        hint="for PRIORITY: one action in each line, the most important first",
        rows=2,
    )
    aggregates = [(str(how), str(how)) for how in Aggregate]
    yield Choice(place=(*place, "collect"), label="Collect", options=aggregates, blank="not set")
    yield Control(
        place=(*place, "of"), label="Of", hint="for COLLECT: the parameter with the number", mono=True
    )


def _feature(place: Place, base: Mapping[str, Any], inputs: Sequence[str]) -> Choice:
    """The features that are no input of a table yet, each with its type."""
    features = base.get("features")
    found = features.items() if isinstance(features, dict) else ()
    return Choice(
        place=(*place, "input"),
        label="New input",
        options=[
            (name, f"{name} ({spec['type']})" if isinstance(spec, dict) and "type" in spec else name)
            for name, spec in found
            if isinstance(name, str) and name not in inputs
        ],
        blank="Choose a feature",
        hint="a feature of the ruleset; every rule allows anything of it at first",
    )


def _columns(table: Mapping[str, Any], parameters: Sequence[str]) -> Iterator[Control]:
    yield Control(place=("id",), label="Rule", mono=True)
    for at, name in enumerate(table["inputs"]):
        yield Cell(place=("when", at), label=name, mono=True)
    yield Control(place=("then", "action"), label="Action", mono=True)
    named = (name for rule in table["rules"] for name in rule["then"].get("params", {}))
    for name in dict.fromkeys((*named, *parameters)):
        yield Value(place=("then", "params", name), label=name, mono=True)
    yield Number(place=("certainty",), label="Certainty")
    yield WholeNumber(place=("priority",), label="Priority")
    yield Flag(place=("mandatory",), label="Mandatory")
    yield Control(place=("justification",), label="Justification")


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
