"""An editor's form for its page: each field with its hint, its usage, and what the check found there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from runtime.core.views import labels
from runtime.kernel import units
from runtime.proposals.queries.limit_usage import LimitUsage
from runtime.registry.services import document_writing
from runtime.registry.services.lint_results import LintMessage
from runtime.registry.views.document_form import DocumentForm, Rows, Section, id_of, value_at
from runtime.registry.views.form_controls import Control, Texts

# About how many characters of code fit in a line of a text area.
_COLUMNS: Final = 72
_MOST_LINES: Final = 14


@dataclass(frozen=True, kw_only=True)
class Note:
    """What a linter says that keeps nothing from being saved; the badge tells a warning from information."""

    severity: labels.Badge
    message: str


@dataclass(frozen=True, kw_only=True)
class FieldShown:
    """One field. `wrong` is what must be corrected and `notes` what need not, `figures` the usage beside it.

    The parts of a field that describe it have its id with a word behind it.
    """

    control: Control
    name: str
    texts: Texts
    wrong: Sequence[str]
    notes: Sequence[Note]
    figures: Mapping[str, Any] | None
    is_focused: bool
    wrong_values: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The id of the control."""
        return id_of(self.name)

    @property
    def text(self) -> str:
        """What a field to type in holds."""
        return self.texts[-1] if self.texts else ""

    @property
    def template(self) -> str:
        """Which control it is; a text of several lines always has room for them."""
        is_long = self.control.template == "text" and len(self.text.splitlines()) > 1
        return "area" if is_long else self.control.template

    @property
    def rows(self) -> int:
        """The lines that a text area shows."""
        needed = sum(1 + len(line) // _COLUMNS for line in self.text.split("\n"))
        return min(_MOST_LINES, max(getattr(self.control, "rows", 2), needed))

    @property
    def is_wide(self) -> bool:
        """Whether it has the whole width of its section."""
        return self.control.wide or self.template in {"area", "boxes"}

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The options; those that a finding is about are marked, all of them where it is about the list."""
        marked = bool(self.wrong) and not self.wrong_values
        return [
            {**option, "is_wrong": marked or option["value"] in self.wrong_values}
            for option in self.control.choices(self.texts)
        ]

    @property
    def described_by(self) -> str:
        """The ids of the elements that describe the control."""
        parts = {
            "unit": self.control.unit,
            "figures": self.figures,
            "hint": self.control.hint,
            "wrong": self.wrong,
            "note": self.notes,
        }
        return " ".join(f"{self.id}-{part}" for part, shown in parts.items() if shown)


@dataclass(frozen=True, kw_only=True)
class RowsShown:
    """A list with its rows, each with its key and its fields."""

    part: Rows
    rows: Sequence[tuple[str, str, Sequence[FieldShown]]]
    wrong: Sequence[str]
    notes: Sequence[Note]
    is_focused: bool

    @property
    def id(self) -> str:
        """The id of the list."""
        return id_of(self.part.member)


def shown(
    form: DocumentForm,
    *,
    document: Mapping[str, Any],
    remarks: Sequence[LintMessage],
    usage: Mapping[str, LimitUsage],
    measures: Mapping[str, str],
) -> dict[str, Any]:
    """Return the form for its page.

    `document` is what the fields make, `remarks` what its check found. `usage` and `measures`, the units of
    amounts, are by the name of the field that they stand beside.
    """
    targets = {remark: _target(form, remark, document) for remark in remarks}
    page = _Page(form=form, document=document, remarks=targets, usage=usage, measures=measures)
    rest = form.rest()
    return {
        "sections": [
            {"section": section, "parts": [page.part(part) for part in section.parts]}
            for section in form.sections
        ],
        "base": document_writing.value_as_json(form.base),
        "rest": sorted(rest),
        "rest_text": document_writing.value_as_yaml(rest) if rest else "",
        "findings": [
            finding(remark, target=target, label=_label(form.sections, form.rows, target))
            for remark, target in targets.items()
        ],
    }


def finding(remark: LintMessage, *, target: str = "", label: str = "") -> dict[str, Any]:
    """Return a finding for the list of all, with a link to the field `target` where one shows it."""
    return {
        "remark": remark,
        "severity": labels.badge(labels.LINT_SEVERITIES, remark.severity),
        "target": id_of(target) if target else "",
        "label": label,
    }


def errors_at(name: str, targets: Mapping[LintMessage, str]) -> list[str]:
    """Return what must be corrected at a field; `targets` has the field of each finding."""
    return [remark.message for remark, target in targets.items() if target == name and remark.is_wrong]


def notes_at(name: str, targets: Mapping[LintMessage, str]) -> list[Note]:
    """Return what else is to be known at a field."""
    return [
        Note(severity=labels.badge(labels.LINT_SEVERITIES, remark.severity), message=remark.message)
        for remark, target in targets.items()
        if target == name and not remark.is_wrong
    ]


def figures(usage: LimitUsage, measure: str) -> dict[str, Any]:
    """Return the figures of a limit's usage as people read them; no figures where there are no values."""
    found = usage.spread
    words = []
    if found is not None:
        words = [
            ("p50", _amount(found.p50, measure)),
            ("p95", _amount(found.p95, measure)),
            ("max", _amount(found.largest, measure)),
        ]
    return {
        "figures": words,
        "count": 0 if found is None else found.count,
        "untold": usage.untold,
        "unlike": usage.unlike,
    }


@dataclass(frozen=True, kw_only=True)
class _Page:
    form: DocumentForm
    document: Mapping[str, Any]
    remarks: Mapping[LintMessage, str]
    usage: Mapping[str, LimitUsage]
    measures: Mapping[str, str]

    def part(self, part: Control | Rows) -> FieldShown | RowsShown:
        if isinstance(part, Control):
            return self.field(part, part.name)
        rows = [
            (
                key,
                f"{part.title}, row {number}",
                [self.field(column, f"{part.member}.{key}.{column.name}") for column in part.columns],
            )
            for number, key in enumerate(self.form.rows[part.member], start=1)
        ]
        return RowsShown(
            part=part,
            rows=rows,
            wrong=errors_at(part.member, self.remarks),
            notes=notes_at(part.member, self.remarks),
            is_focused=self.form.focus == id_of(f"{part.member}.add"),
        )

    def field(self, control: Control, name: str) -> FieldShown:
        usage = self.usage.get(name)
        return FieldShown(
            control=control,
            name=name,
            texts=self.form.texts[name],
            wrong=errors_at(name, self.remarks),
            notes=notes_at(name, self.remarks),
            figures=None if usage is None else figures(usage, self.measures.get(name, "")),
            is_focused=self.form.focus == id_of(name),
            wrong_values=frozenset(self._wrong_values(name)),
        )

    def _wrong_values(self, name: str) -> Iterator[str]:
        """The texts in the document that a finding about this field is about."""
        for remark, target in self.remarks.items():
            value = value_at(self.document, remark.place) if target == name and remark.is_wrong else None
            if isinstance(value, str):
                yield value


def _target(form: DocumentForm, remark: LintMessage, document: Mapping[str, Any]) -> str:
    """The name of the field that a finding is about; what could not be read names its field itself."""
    if not remark.place:
        return remark.field if remark.field in form.unread else ""
    return form.field_at(remark.place, document)


def _label(sections: Sequence[Section], rows: Mapping[str, Sequence[str]], name: str) -> str:
    """The words of a field in a list of findings: `Limits, row 2: Value`."""
    for part in (part for section in sections for part in section.parts):
        if isinstance(part, Control):
            if part.name == name:
                return part.label
        elif name == part.member:
            return part.title
        elif name.startswith(f"{part.member}."):
            _, key, column = name.split(".", 2)
            label = next(item.label for item in part.columns if item.name == column)
            return f"{part.title}, row {list(rows[part.member]).index(key) + 1}: {label}"
    return ""


def _amount(number: Decimal, measure: str) -> str:
    return units.write(number, measure) if measure else f"{number:,f}"
