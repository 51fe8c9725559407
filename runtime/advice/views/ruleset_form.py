"""The form of a ruleset: its decision tables as tables of fields, merged back into the document.

The document is the only truth, as in the other editors (`registry.views.document_form`): what no field shows
stays in it as it is, and so does a field that was not changed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from django.http import QueryDict

from audit import canonical
from runtime.contracts.ruleset import MAX_RULES, Aggregate, HitPolicy
from runtime.registry.services import document_writing
from runtime.registry.services.document_reading import Place
from runtime.registry.services.lint_results import LintMessage
from runtime.registry.views.document_form import NEW, RowForm, id_of, value_at
from runtime.registry.views.form_controls import (
    MISSING,
    Choice,
    Control,
    Flag,
    Lines,
    Number,
    TextArea,
    Texts,
    UnreadableError,
    WholeNumber,
)
from runtime.registry.views.form_page import FieldShown, errors_at, finding, notes_at

# A request has at most 1,000 fields: tables beyond are left to the document.
MOST_FIELDS: Final = 900
ANYTHING: Final = "-"
_HEAD: Final = (
    Control(place=("version",), label="Version", mono=True),
    Number(place=("high_confidence",), label="High confidence from", hint="0 to 1; 0.8 where it is empty"),
    TextArea(place=("description",), label="About", wide=True, rows=2),
)


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
    """A table of the document that has fields: the place it is at there, and the columns of its rules."""

    at: int
    name: str
    heads: Sequence[Control]
    columns: Sequence[Control]

    @property
    def member(self) -> str:
        """What its fields begin with."""
        return f"tables.{self.at}"


@dataclass(kw_only=True)
class RulesetForm(RowForm):
    """The fields of a ruleset; the rows of a table are its rules."""

    heads: Sequence[Control] = ()
    tables: Sequence[Table] = ()

    @classmethod
    def of(cls, base: dict[str, Any], posted: QueryDict | None = None) -> "RulesetForm":
        """The form of a document, with what a person has sent."""
        form = cls(base=base)
        form.heads = [control for control in _HEAD if control.show(value_at(base, control.place)) is not None]
        form.tables = list(_tables(base))
        for table in form.tables:
            form._open_rows(table.member, len(form._rules(table)), posted, most=MAX_RULES)
        form._open_fields(posted)
        return form

    def add(self, member: str) -> None:
        """Add a rule to a table, where there is room for its fields."""
        for table in self.tables:
            if table.member == member and len(self.texts) + len(table.columns) <= MOST_FIELDS:
                self._add_row(member, table.columns)

    def document(self) -> dict[str, Any]:
        """The document with what was changed; `unread` then names the fields that are no value."""
        self.unread = {}
        made = deepcopy(self.base)
        for control in self.heads:
            self._merge(made, control, control.name, control.place)
        for table in self.tables:
            for control in table.heads:
                self._merge(made, control, control.name, control.place)
            made["tables"][table.at]["rules"] = [
                self._rule(table, key) for key in self._kept_rows(table.member, table.columns)
            ]
        return made

    def field_at(self, place: Place, document: Mapping[str, Any]) -> str:
        """The name of the field that shows a place of the document that this form made; empty for none."""
        heads = [*self.heads, *(control for table in self.tables for control in table.heads)]
        for control in heads:
            if place[: len(control.place)] == control.place:
                return control.name
        found = next((table for table in self.tables if place[:2] == ("tables", table.at)), None)
        if found is None:
            return ""
        keys, inside = self._kept_rows(found.member, found.columns), place[4:]
        at = place[3] if len(place) > 3 else None  # noqa: PLR2004
        if place[2:3] != ("rules",) or not isinstance(at, int) or at >= len(keys):
            return found.member
        # The column of the place itself, else the first one below it, else that of the id.
        columns = [column for column in found.columns if inside[: len(column.place)] == column.place]
        columns += [column for column in found.columns if inside and column.place[: len(inside)] == inside]
        return f"{found.member}.{keys[at]}.{(columns or found.columns)[0].name}"

    def _rules(self, table: Table) -> list[Any]:
        rules: list[Any] = self.base["tables"][table.at]["rules"]
        return rules

    def _fields(self) -> Iterator[tuple[str, Control, Any]]:
        """Every field by its name, with what the document has there."""
        for control in (*self.heads, *(control for table in self.tables for control in table.heads)):
            yield control.name, control, value_at(self.base, control.place)
        for table in self.tables:
            for key in self.rows[table.member]:
                rule = {} if key.startswith(NEW) else self._rules(table)[int(key)]
                for column in table.columns:
                    yield f"{table.member}.{key}.{column.name}", column, value_at(rule, column.place)

    def _rule(self, table: Table, key: str) -> dict[str, Any]:
        is_new = key.startswith(NEW)
        rule = {"when": [], "then": {}} if is_new else deepcopy(self._rules(table)[int(key)])
        for column in table.columns:
            self._merge(rule, column, f"{table.member}.{key}.{column.name}", column.place)
        return rule

    def _merge(self, made: dict[str, Any], control: Control, name: str, place: Place) -> None:
        """Set, change or remove what a field shows, where it was changed."""
        before, texts = value_at(made, place), self.texts[name]
        is_new_cell = before is MISSING and isinstance(control, Cell)
        if not is_new_cell and control.is_same(texts, control.show(before) or ()):
            return
        try:
            after = control.read(texts, before)
        except UnreadableError as error:
            self.unread[name] = str(error)
            after = ANYTHING if is_new_cell else before
        _put(made, place, after)


@dataclass(frozen=True, kw_only=True)
class ShownRuleset:
    """The form of a ruleset for its page."""

    form: RulesetForm

    def shown(self, document: Mapping[str, Any], remarks: Sequence[LintMessage]) -> dict[str, Any]:
        """The head, the tables with their rows, what else there is, and each finding with its field."""
        form = self.form
        targets = {
            remark: form.field_at(remark.place, document)
            if remark.place
            else (remark.field if remark.field in form.unread else "")
            for remark in remarks
        }
        labels = dict(_labels(form))

        def shown(name: str, control: Control, label: str = "") -> FieldShown:
            return FieldShown(
                control=control,
                name=name,
                texts=form.texts[name],
                wrong=errors_at(name, targets),
                notes=notes_at(name, targets),
                figures=None,
                is_focused=form.focus == id_of(name),
            )

        return {
            "base": document_writing.value_as_json(form.base),
            "head": [shown(control.name, control) for control in form.heads],
            "tables": [
                {
                    "table": table,
                    "id": id_of(table.member),
                    "wrong": errors_at(table.member, targets),
                    "notes": notes_at(table.member, targets),
                    "is_focused": form.focus == id_of(f"{table.member}.add"),
                    "heads": [shown(control.name, control) for control in table.heads],
                    "rows": [
                        {
                            "key": key,
                            "label": f"rule {number}",
                            "fields": [
                                shown(f"{table.member}.{key}.{column.name}", column)
                                for column in table.columns
                            ],
                        }
                        for number, key in enumerate(form.rows[table.member], start=1)
                    ],
                }
                for table in form.tables
            ],
            **_rest(form),
            "findings": [
                finding(remark, target=target, label=labels.get(target, ""))
                for remark, target in targets.items()
            ],
        }


def build(base: dict[str, Any], posted: QueryDict | None) -> ShownRuleset:
    """The form of a document, with what a person has sent."""
    return ShownRuleset(form=RulesetForm.of(base, posted))


def _labels(form: RulesetForm) -> Iterator[tuple[str, str]]:
    """The words of each field in a list of findings: `lines, rule 2: score`."""
    for control in form.heads:
        yield control.name, control.label
    for table in form.tables:
        yield table.member, table.name
        for control in table.heads:
            yield control.name, f"{table.name}: {control.label}"
        for number, key in enumerate(form.rows[table.member], start=1):
            for column in table.columns:
                yield f"{table.member}.{key}.{column.name}", f"{table.name}, rule {number}: {column.label}"


def _rest(form: RulesetForm) -> dict[str, Any]:
    """What the document has besides the fields."""
    shown = {control.name for control in form.heads}
    rest = {name: value for name, value in form.base.items() if name not in {*shown, "tables"}}
    tables = form.base.get("tables")
    if isinstance(tables, list):
        others = [table for at, table in enumerate(tables) if at not in {one.at for one in form.tables}]
        rest |= {"tables": others} if others else {}
    return {"rest": sorted(rest), "rest_text": document_writing.value_as_yaml(rest) if rest else ""}


def _tables(base: Mapping[str, Any]) -> Iterator[Table]:
    """The tables that fields can show, as many as a request has room for."""
    found, used = base.get("tables"), 0
    for at, table in enumerate(found if isinstance(found, list) else ()):
        if not _is_shown(table):
            continue
        shown = Table(
            at=at,
            name=str(table.get("table", "")),
            heads=list(_heads(("tables", at))),
            columns=list(_columns(table)),
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


def _columns(table: Mapping[str, Any]) -> Iterator[Control]:
    yield Control(place=("id",), label="Rule", mono=True)
    for at, name in enumerate(table["inputs"]):
        yield Cell(place=("when", at), label=name, mono=True)
    yield Control(place=("then", "action"), label="Action", mono=True)
    named = (name for rule in table["rules"] for name in rule["then"].get("params", {}))
    for name in dict.fromkeys(named):
        yield Value(place=("then", "params", name), label=name, mono=True)
    yield Number(place=("certainty",), label="Certainty")
    yield WholeNumber(place=("priority",), label="Priority")
    yield Flag(place=("mandatory",), label="Mandatory")
    yield Control(place=("justification",), label="Justification")


def _put(document: dict[str, Any], place: Place, value: Any) -> None:
    """Set or remove a member; cells are put in the order of their columns."""
    *above, last = place
    within: Any = document
    for step in above:
        within = within[int(step)] if isinstance(within, list) else within.setdefault(step, {})
    if isinstance(within, list):
        within[int(last) : int(last) + 1] = [value]
    elif value is MISSING:
        within.pop(last, None)
    else:
        within[last] = value


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
