"""The form of a ruleset: its decision tables as tables of fields, merged back into the document.

The document is the only truth, as in the other editors (`registry.views.document_form`): what no field shows
stays in it as it is, and so does a field that was not changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import QueryDict

from runtime.advice.views import ruleset_tables
from runtime.advice.views.ruleset_tables import ANYTHING, Cell, Table
from runtime.contracts.ruleset import MAX_RULES
from runtime.registry.services import document_writing
from runtime.registry.services.document_reading import Place
from runtime.registry.services.lint_results import LintMessage
from runtime.registry.views.document_form import NEW, RowForm, id_of, key_of, value_at
from runtime.registry.views.form_controls import MISSING, Control, Number, TextArea, UnreadableError
from runtime.registry.views.form_page import FieldShown, errors_at, finding, notes_at

_PARAMETERS: Final = ".parameters"
_NO_ROOM: Final = "The form has no room for more fields. Edit the document instead."
_HEAD: Final = (
    Control(place=("version",), label="Version", mono=True),
    Number(place=("high_confidence",), label="High confidence from", hint="0 to 1; 0.8 where it is empty"),
    TextArea(place=("description",), label="About", wide=True, rows=2),
)


@dataclass(kw_only=True)
class RulesetForm(RowForm):
    """The fields of a ruleset; the rows of a table are its rules.

    A button that changes the columns of a table changes `base`, and what was typed stays in the fields beside
    it. `parameters` are the columns of a table, by its member, of which the document has no value yet.
    """

    heads: Sequence[Control] = ()
    tables: Sequence[Table] = ()
    parameters: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, base: dict[str, Any], posted: QueryDict | None = None) -> "RulesetForm":
        """The form of a document, with what a person has sent."""
        form = cls(base=base, parameters=_sent_parameters(base, posted))
        form.heads = [control for control in _HEAD if control.show(value_at(base, control.place)) is not None]
        form.tables = list(ruleset_tables.tables_of(base, form.parameters))
        for table in form.tables:
            form._open_rows(table.member, len(form._rules(table)), posted, most=MAX_RULES)
        form._open_fields(posted)
        return form

    def change_rows(self, posted: QueryDict) -> bool:
        """Do what a button for rules or columns asks; False where none was pressed."""
        buttons: Mapping[str, Callable[[str], None]] = {
            "up": lambda said: self.move_up(*key_of(said)),
            "add_input": self.add_input,
            "remove_input": lambda said: self.remove_input(*key_of(said)),
            "add_parameter": self.add_parameter,
            "remove_parameter": lambda said: self.remove_parameter(*key_of(said)),
        }
        for name, act in buttons.items():
            if name in posted:
                act(posted.get(name, ""))
                return True
        return super().change_rows(posted)

    def add(self, member: str) -> None:
        """Add a rule to a table, where there is room for its fields."""
        for table in self._called(member):
            if self._sent() + len(table.columns) + 1 <= ruleset_tables.MOST_FIELDS:
                self._add_row(member, table.columns)
            else:
                self._refuse(member, _NO_ROOM, focus=f"{member}.add")

    def move_up(self, member: str, key: str) -> None:
        """Move a rule before the one above it; the first one has no button to keep the focus on."""
        keys = self.rows.get(member, [])
        if key not in keys[1:]:
            return
        at = keys.index(key) - 1
        keys[at : at + 2] = [key, keys[at]]
        self.focus = id_of(f"{member}.{key}.{'up' if at else 'id'}")

    def add_input(self, member: str) -> None:
        """Make the chosen feature another input of a table, of which each rule allows anything."""
        for table in self._called(member):
            name = table.feature.name
            feature = self.texts[name][-1]
            refusal = table.refusal_of_input(feature)
            base = self.base if refusal else ruleset_tables.with_input(self.base, table, feature)
            if refusal or not self._fits(table, base, self.parameters):
                self._refuse(name, refusal or _NO_ROOM)
                continue
            self._reshape(base, self.parameters)
            self._begin_column(table, ("when", len(table.inputs)), name)

    def remove_input(self, member: str, key: str) -> None:
        """Remove an input of a table with its cells; a table keeps at least one."""
        for table in self._called(member):
            keys = [str(at) for at in range(len(table.inputs))]
            if key not in keys:
                continue
            if len(keys) == 1:
                self._refuse(table.feature.name, "A table needs at least one input.")
                continue
            self._drop_cells(table, int(key))
            self._reshape(ruleset_tables.without_input(self.base, table, int(key)), self.parameters)
            self.focus = id_of(table.feature.name)

    def add_parameter(self, member: str) -> None:
        """Give the actions of a table another parameter, of which no rule has a value yet."""
        for table in self._called(member):
            name = table.parameter.name
            parameter = self.texts[name][-1].strip()
            refusal = table.refusal_of_parameter(parameter)
            parameters = {**self.parameters, member: [*self.parameters.get(member, ()), parameter]}
            if refusal or not self._fits(table, self.base, parameters):
                self._refuse(name, refusal or _NO_ROOM)
                continue
            self._reshape(self.base, parameters)
            self._begin_column(table, ("then", "params", parameter), name)

    def remove_parameter(self, member: str, parameter: str) -> None:
        """Remove a parameter of a table's actions with its values."""
        for table in self._called(member):
            column = next((one for one in table.parameters if one.label == parameter), None)
            if column is None:
                continue
            for key in self.rows[member]:
                del self.texts[f"{member}.{key}.{column.name}"]
            left = [name for name in self.parameters.get(member, ()) if name != parameter]
            base = ruleset_tables.without_parameter(self.base, table, parameter)
            self._reshape(base, {**self.parameters, member: left})
            self.focus = id_of(table.parameter.name)

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

    def _called(self, member: str) -> list[Table]:
        """The table of this name, in a list; an empty one where no fields show it."""
        return [table for table in self.tables if table.member == member]

    def _sent(self) -> int:
        """How many fields a browser sends of this form at most."""
        lists = (*self.rows.values(), *self.parameters.values())
        return len(self.texts) + sum(len(items) for items in lists)

    def _fits(self, table: Table, base: Mapping[str, Any], parameters: Mapping[str, Sequence[str]]) -> bool:
        """Whether there is room for one more column, so that every table keeps its fields."""
        tables = ruleset_tables.tables_of(base, parameters)
        is_sent = self._sent() + len(self.rows[table.member]) < ruleset_tables.MOST_FIELDS
        return is_sent and [one.at for one in tables] == [one.at for one in self.tables]

    def _reshape(self, base: dict[str, Any], parameters: dict[str, list[str]]) -> None:
        """Show a document with other columns; what is in the fields stays, and new ones are empty."""
        self.base, self.parameters = base, parameters
        self.tables = list(ruleset_tables.tables_of(base, parameters))
        for name, control, before in self._fields():
            self.texts.setdefault(name, control.show(before) or ())

    def _begin_column(self, table: Table, place: Place, name: str) -> None:
        """Go on in the first field of a new column; the field that named it is empty again."""
        self.texts[name] = ("",)
        first = next(iter(self.rows[table.member]), None)
        column = ".".join(str(step) for step in place)
        self.focus = id_of(name if first is None else f"{table.member}.{first}.{column}")

    def _drop_cells(self, table: Table, at: int) -> None:
        """Drop what was typed into the cells of one input: those behind it move one place forward."""
        for key in self.rows[table.member]:
            names = [f"{table.member}.{key}.{cell.name}" for cell in table.inputs]
            texts = [self.texts.pop(name) for name in names]
            del texts[at]
            self.texts.update(zip(names, texts, strict=False))

    def _refuse(self, name: str, message: str, *, focus: str = "") -> None:
        self.refused[name] = message
        self.focus = id_of(focus or name)

    def _rules(self, table: Table) -> list[Any]:
        rules: list[Any] = self.base["tables"][table.at]["rules"]
        return rules

    def _fields(self) -> Iterator[tuple[str, Control, Any]]:
        """Every field by its name, with what the document has there."""
        for control in (*self.heads, *(control for table in self.tables for control in table.heads)):
            yield control.name, control, value_at(self.base, control.place)
        for table in self.tables:
            yield table.feature.name, table.feature, MISSING
            yield table.parameter.name, table.parameter, MISSING
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

        def shown(name: str, control: Control) -> FieldShown:
            refused = [form.refused[name]] if name in form.refused else []
            return FieldShown(
                control=control,
                name=name,
                texts=form.texts[name],
                wrong=[*errors_at(name, targets), *refused],
                notes=notes_at(name, targets),
                figures=None,
                is_focused=form.focus == id_of(name),
            )

        def row(table: Table, number: int, key: str) -> dict[str, Any]:
            member = f"{table.member}.{key}"
            name = form.texts[f"{member}.id"][-1].strip()
            return {
                "key": key,
                "label": f"rule {number}",
                "called": f"rule {number}, {name}" if name else f"rule {number}",
                "up": id_of(f"{member}.up"),
                "is_up_focused": form.focus == id_of(f"{member}.up"),
                "fields": [shown(f"{member}.{column.name}", column) for column in table.columns],
            }

        def part(table: Table) -> dict[str, Any]:
            refused = [form.refused[table.member]] if table.member in form.refused else []
            return {
                "table": table,
                "id": id_of(table.member),
                "wrong": [*errors_at(table.member, targets), *refused],
                "notes": notes_at(table.member, targets),
                "is_focused": form.focus == id_of(f"{table.member}.add"),
                "heads": [shown(control.name, control) for control in table.heads],
                "feature": shown(table.feature.name, table.feature),
                "parameter": shown(table.parameter.name, table.parameter),
                "new_parameters": form.parameters.get(table.member, ()),
                "rows": [
                    row(table, number, key) for number, key in enumerate(form.rows[table.member], start=1)
                ],
            }

        return {
            "base": document_writing.value_as_json(form.base),
            "head": [shown(control.name, control) for control in form.heads],
            "tables": [part(table) for table in form.tables],
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


def _sent_parameters(base: Mapping[str, Any], posted: QueryDict | None) -> dict[str, list[str]]:
    """The columns that were sent of each table although the document has no value of them."""
    tables = base.get("tables")
    if posted is None or not isinstance(tables, list):
        return {}
    sent = {f"tables.{at}": posted.getlist(f"tables.{at}{_PARAMETERS}") for at in range(len(tables))}
    return {
        member: [name for name in names if ruleset_tables.is_parameter(name)]
        for member, names in sent.items()
    }


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
