"""A document's form: fields beside the document that they were opened with, merged back into it.

The document is the only truth: the form is read into it, and what comes out goes the same way as a document
that was typed. Members that no field shows stay in it untouched.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import QueryDict

from runtime.registry.services.document_reading import Place
from runtime.registry.views.form_controls import MISSING, Control, Texts, UnreadableError

_ROWS: Final = ".rows"
# What the key of a new row begins with.
NEW: Final = "new"
_ROW_KEY: Final = re.compile(rf"[0-9]{{1,5}}|{NEW}[0-9]{{1,5}}")
_NOT_OF_AN_ID: Final = re.compile(r"[^A-Za-z0-9_.]")
MOST_ROWS: Final = 200


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A list of objects as rows of fields; the places of `columns` are those inside a row.

    A row that is a bare text in the document is one of `bare` alone. Where the member is a map, `key` names
    the column of its keys and the other column has its values.
    """

    member: str
    title: str
    hint: str
    add: str
    columns: Sequence[Control]
    bare: str = ""
    key: str = ""

    def items_of(self, value: Any) -> list[Any] | None:
        """The elements of the member, each as it is shown; None for a member that is no such list."""
        if value is MISSING or value is None:
            return []
        if self.key and isinstance(value, dict):
            return [{self.key: name, self._value: item} for name, item in value.items()]
        return value if isinstance(value, list) and not self.key else None

    def row_of(self, item: Any) -> Mapping[str, Any] | None:
        """One element as a row; None for one that no row shows."""
        if isinstance(item, str) and self.bare:
            item = {self.bare: item}
        if not isinstance(item, dict):
            return None
        fits = all(column.show(item.get(column.name, MISSING)) is not None for column in self.columns)
        return item if fits else None

    def value_of(self, items: Sequence[Any]) -> Any:
        """The member of these elements."""
        if not self.key:
            return list(items)
        return {item.get(self.key, ""): item.get(self._value, []) for item in items}

    @property
    def _value(self) -> str:
        return next(column.name for column in self.columns if column.name != self.key)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled part of the form."""

    title: str
    parts: Sequence[Control | Rows]
    hint: str = ""

    @property
    def id(self) -> str:
        """The id of its heading."""
        return id_of(f"part {self.title.lower()}")


@dataclass(kw_only=True)
class RowForm(ABC):
    """Fields beside a document: `texts` are what they hold, `rows` the rows of each list by their keys.

    A row that the document has is called by its number there, a new one by a name of its own; so a row keeps
    its fields when another one is removed.
    """

    base: dict[str, Any]
    texts: dict[str, Texts] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    # What could not be read, by the name of its field.
    unread: dict[str, str] = field(default_factory=dict)
    # What a button could not do, by the name of the field that it is said at.
    refused: dict[str, str] = field(default_factory=dict)
    focus: str = ""

    def change_rows(self, posted: QueryDict) -> bool:
        """Do what a button for rows asks; False where none was pressed."""
        if "add" in posted:
            self.add(posted.get("add", ""))
        elif "remove" in posted:
            self.remove(*key_of(posted.get("remove", "")))
        else:
            return False
        return True

    @abstractmethod
    def add(self, member: str) -> None:
        """Add an empty row to a list."""

    def remove(self, member: str, key: str) -> None:
        """Remove a row from a list."""
        if key in self.rows.get(member, ()):
            self.rows[member].remove(key)
            self.focus = id_of(f"{member}.add")

    @abstractmethod
    def _fields(self) -> Iterator[tuple[str, Control, Any]]:
        """Every field by its name, with what the document has there."""

    def _open_rows(self, member: str, held: int, posted: QueryDict | None, *, most: int) -> None:
        """The rows of a list of which the document has so many: those that were sent, else these."""
        keys = [str(at) for at in range(held)]
        if posted is not None and f"{member}{_ROWS}" in posted:
            keys = [key for key in posted.getlist(f"{member}{_ROWS}") if _is_key(key, held)]
        self.rows[member] = list(dict.fromkeys(keys))[:most]

    def _open_fields(self, posted: QueryDict | None) -> None:
        """What was sent of each field, else what the document has."""
        for name, control, before in self._fields():
            shown = control.show(before) or ()
            is_sent = posted is not None and (name in posted or control.is_chosen)
            self.texts[name] = tuple(posted.getlist(name)) if posted is not None and is_sent else shown

    def _add_row(self, member: str, columns: Sequence[Control]) -> None:
        """An empty row at the end of a list."""
        keys = self.rows[member]
        taken = [int(key.removeprefix(NEW)) for key in keys if key.startswith(NEW)]
        key = f"{NEW}{max(taken, default=0) + 1}"
        keys.append(key)
        for column in columns:
            self.texts[f"{member}.{key}.{column.name}"] = column.show(MISSING) or ()
        self.focus = id_of(f"{member}.{key}.{columns[0].name}")

    def _kept_rows(self, member: str, columns: Sequence[Control]) -> list[str]:
        """The rows that are elements: a new one in which nothing was entered is none yet."""

        def is_empty(key: str, column: Control) -> bool:
            entered = self.texts[f"{member}.{key}.{column.name}"]
            return column.is_same(entered, column.show(MISSING) or ())

        return [
            key
            for key in self.rows[member]
            if not key.startswith(NEW) or not all(is_empty(key, column) for column in columns)
        ]


def _is_key(key: str, held: int) -> bool:
    """Whether a row is one of so many of the document, or a new one."""
    return _ROW_KEY.fullmatch(key) is not None and (key.startswith(NEW) or int(key) < held)


@dataclass(kw_only=True)
class DocumentForm(RowForm):
    """The fields of a document, in sections."""

    sections: Sequence[Section]

    @classmethod
    def of(
        cls, base: dict[str, Any], sections: Iterable[Section], posted: QueryDict | None = None
    ) -> "DocumentForm":
        """The form of a document, with what a person has sent; fields that show no member are left out."""
        form = cls(base=base, sections=[_shown(section, base) for section in sections])
        for part in form._parts():
            if isinstance(part, Rows):
                held = part.items_of(base.get(part.member, MISSING)) or ()
                form._open_rows(part.member, len(held), posted, most=MOST_ROWS)
        form._open_fields(posted)
        return form

    def add(self, member: str) -> None:
        """Add an empty row to a list."""
        for part in self._parts():
            if isinstance(part, Rows) and part.member == member and len(self.rows[member]) < MOST_ROWS:
                self._add_row(member, part.columns)

    def document(self) -> dict[str, Any]:
        """The document with what was changed; `unread` then names the fields that are no value."""
        self.unread = {}
        made: dict[str, Any] = dict(self.base)
        for part in self._parts():
            if isinstance(part, Rows):
                before = self.base.get(part.member, MISSING)
                after = self._rows_of(part, before)
                if after is not before:
                    _put(made, (part.member,), after)
                continue
            before = value_at(self.base, part.place)
            after = self._read(part, part.name, before)
            if after is not before:
                _put(made, part.place, after)
        return made

    def field_at(self, place: Place, document: Mapping[str, Any]) -> str:
        """The name of the field that shows a place of the document that this form made; empty for none."""
        for part in self._parts():
            if isinstance(part, Control):
                if place[: len(part.place)] == part.place:
                    return part.name
            elif place[:1] == (part.member,):
                return self._field_in_rows(part, place, document)
        return ""

    def ids_of_rows(self, member: str, column: str) -> dict[str, str]:
        """What the rows of a list are called in one of their columns, by the key of the row."""
        keys = self.rows.get(member, ())
        return {key: self.texts[f"{member}.{key}.{column}"][-1].strip() for key in keys}

    def rest(self) -> dict[str, Any]:
        """What the document has besides the fields, as the document has it."""
        covered = {part.place for part in self._parts() if isinstance(part, Control)}
        lists = {part.member: part for part in self._parts() if isinstance(part, Rows)}
        found: dict[str, Any] = {}
        for name, value in _uncovered(self.base, covered, ()).items():
            part = lists.get(name)
            if part is None:
                found[name] = value
                continue
            columns = {column.name for column in part.columns}
            extra = {
                f"{name}[{at}]": {key: one for key, one in item.items() if key not in columns}
                for at, item in enumerate(part.items_of(value) or ())
                if isinstance(item, dict) and item.keys() - columns
            }
            found |= extra
        return found

    def _parts(self) -> Iterator[Control | Rows]:
        return (part for section in self.sections for part in section.parts)

    def _fields(self) -> Iterator[tuple[str, Control, Any]]:
        """Every field by its name, with what the document has there."""
        for part in self._parts():
            if isinstance(part, Control):
                yield part.name, part, value_at(self.base, part.place)
                continue
            for key in self.rows[part.member]:
                row = self._row(part, key)
                for column in part.columns:
                    yield f"{part.member}.{key}.{column.name}", column, row.get(column.name, MISSING)

    def _row(self, part: Rows, key: str) -> Mapping[str, Any]:
        """The row of the document that a key names; empty for a new one."""
        items = part.items_of(self.base.get(part.member, MISSING)) or []
        return {} if key.startswith(NEW) else part.row_of(items[int(key)]) or {}

    def _read(self, control: Control, name: str, before: Any) -> Any:
        """The value of a field: that of the document itself where nothing was changed."""
        texts = self.texts[name]
        if control.is_same(texts, control.show(before) or ()):
            return before
        try:
            return control.read(texts, before)
        except UnreadableError as error:
            self.unread[name] = str(error)
            return before

    def _rows_of(self, part: Rows, before: Any) -> Any:
        """The list of a member's rows; the member itself where no row was changed."""
        held = part.items_of(before) or []
        keys, items = self.row_keys(part), []
        for key in keys:
            items.append(self._item_of(part, key, held))
        if part.key:
            self._refuse_same_keys(part, keys, items, held)
        is_same = len(items) == len(held) and all(a is b for a, b in zip(items, held, strict=True))
        if is_same or (not items and before is MISSING):
            return before
        return part.value_of(items)

    def row_keys(self, part: Rows) -> list[str]:
        """The rows that are elements: a new one in which nothing was entered is none yet."""
        return self._kept_rows(part.member, part.columns)

    def _item_of(self, part: Rows, key: str, held: Sequence[Any]) -> Any:
        """One element with what was changed in its row; the element itself where nothing was."""
        row = self._row(part, key)
        changed = {}
        for column in part.columns:
            before = row.get(column.name, MISSING)
            after = self._read(column, f"{part.member}.{key}.{column.name}", before)
            if after is not before:
                changed[column.name] = after
        if not changed and not key.startswith(NEW):
            return held[int(key)]
        return {name: value for name, value in {**row, **changed}.items() if value is not MISSING}

    def _refuse_same_keys(
        self, part: Rows, keys: Sequence[str], items: Sequence[Any], held: Sequence[Any]
    ) -> None:
        """A map has each name once, and no new one is empty: two rows of a name would lose one of them."""
        seen = set[str]()
        for key, item in zip(keys, items, strict=True):
            name, place = item.get(part.key, ""), f"{part.member}.{key}.{part.key}"
            if not name and (key.startswith(NEW) or item is not held[int(key)]):
                self.unread[place] = "Enter a name, or remove the row."
            elif name in seen:
                self.unread[place] = f"{name} has a row already."
            seen.add(name)

    def _field_in_rows(self, part: Rows, place: Place, document: Mapping[str, Any]) -> str:
        """The field of a row: of its own column, else its first one; the list itself for no row."""
        keys = self.row_keys(part)
        at: Any = place[1] if len(place) > 1 else None
        if part.key and at is not None:
            names = list(document.get(part.member) or {})
            at = names.index(at) if at in names else None
        if not isinstance(at, int) or at >= len(keys):
            return part.member
        wanted = self._column_of(part, place)
        return f"{part.member}.{keys[at]}.{wanted}"

    def _column_of(self, part: Rows, place: Place) -> str:
        names = [column.name for column in part.columns]
        if part.key:
            return next(name for name in names if name != part.key) if len(place) > 2 else part.key  # noqa: PLR2004
        named = next((step for step in place[2:] if step in names), names[0])
        return str(named)


def key_of(said: str) -> tuple[str, str]:
    """`limits:2`, the value of a button, as a list and the key of a row."""
    member, _, key = said.partition(":")
    return member, key


def id_of(name: str) -> str:
    """The id of a field or a heading on the page: no two names have the same one."""
    escaped = _NOT_OF_AN_ID.sub(lambda found: f":{ord(found[0]):x}:", name)
    return f"f-{escaped.replace('.', '-')}"


def _shown(section: Section, base: Mapping[str, Any]) -> Section:
    """The section with the fields that can show what the document has."""

    def fits(part: Control | Rows) -> bool:
        if isinstance(part, Control):
            return part.show(value_at(base, part.place)) is not None and _is_reachable(base, part.place)
        items = part.items_of(base.get(part.member, MISSING))
        if items is None or len(items) > MOST_ROWS:
            return False
        return all(part.row_of(item) is not None for item in items)

    return Section(
        title=section.title, hint=section.hint, parts=[part for part in section.parts if fits(part)]
    )


def value_at(document: Mapping[str, Any], place: Place) -> Any:
    """What a document has at a place, or MISSING."""
    found: Any = document
    for step in place:
        if isinstance(found, dict):
            found = found.get(step, MISSING)
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return MISSING
    return found


def _is_reachable(document: Mapping[str, Any], place: Place) -> bool:
    """Whether the maps above a place are maps, or may become one."""
    above = [value_at(document, place[:length]) for length in range(1, len(place))]
    return all(value is MISSING or value is None or isinstance(value, dict) for value in above)


def _put(document: dict[str, Any], place: Place, value: Any) -> None:
    """Set or remove a member; a map that is left without members goes with its last one."""
    name, below = str(place[0]), place[1:]
    if below:
        inner = dict(document.get(name) or {})
        _put(inner, below, value)
        value = inner or MISSING
    if value is MISSING:
        document.pop(name, None)
    else:
        document[name] = value


def _uncovered(document: Mapping[str, Any], covered: set[Place], above: Place) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        place = (*above, name)
        if place in covered:
            continue
        if isinstance(value, dict) and any(one[: len(place)] == place for one in covered):
            below = _uncovered(value, covered, place)
            if below:
                found[name] = below
        else:
            found[name] = deepcopy(value)
    return found
