"""What a contract says: one table of fields, of which its JSON Schema and its page are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from audit.contracts.absent import ABSENT
from audit.contracts.flow import Flow, Wanted

SCHEMA_VERSION: Final = "1.0"
Form = Mapping[str, Any]
View = Callable[[Flow, Wanted], dict[str, Any]]

TEXT: Form = {"type": "string"}
TIME: Form = {"type": "string", "format": "date-time"}
DURATION: Form = {"type": "string", "pattern": "^PT[0-9]+(\\.[0-9]+)?S$"}
HASH: Form = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
TRACE: Form = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
SPAN: Form = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
DECIMAL: Form = {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?$"}
FLAG: Form = {"type": "boolean"}
INTEGER: Form = {"type": "integer"}
NUMBER: Form = {"type": "number"}
UNIT: Form = {"type": "number", "minimum": 0, "maximum": 1}
OBJECT: Form = {"type": "object"}
VALUE: Form = {}
TEXTS: Form = {"type": "array", "items": TEXT}
HASHES: Form = {"type": "array", "items": HASH}


def one_of(*words: str) -> Form:
    """A text out of a closed set."""
    return {"enum": list(words)}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its path, the JSON Schema of its value, and where that comes from.

    `[]` in a path is an item of a list; `[word]` one of the sort that `word` names.
    """

    path: str
    form: Form
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """One contract: whose it is, what it shows, the ids that it takes, its fields, and the view.

    `is_numbered`: an id may be followed by a colon and the number of one of several things.
    """

    name: str
    design: str
    title: str
    about: str
    ids: str
    fields: Sequence[Field]
    view: View
    is_numbered: bool = False

    def absent(self, path: str) -> str:
        """Why a field may be null, or one that it stands in; empty where none ever is."""
        steps = path.replace("[]", "").split(".")
        places = (".".join(steps[:count]) for count in range(len(steps), 0, -1))
        return next((ABSENT[self.name, place] for place in places if (self.name, place) in ABSENT), "")


def schema_of(contract: Contract) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12). Every field is required; null only where it may be absent."""
    members = [(tuple(field.path.split(".")), field) for field in contract.fields]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": contract.title,
        "description": contract.about,
        **_object(contract, members, ""),
    }


Members = Sequence[tuple[tuple[str, ...], Field]]


def _object(contract: Contract, members: Members, place: str) -> dict[str, Any]:
    """An object of these members, each given by the rest of its path; `place` is where it stands."""
    groups: dict[str, dict[str, list[tuple[tuple[str, ...], Field]]]] = {}
    for (first, *rest), field in members:
        name, _, sort = first.partition("[")
        groups.setdefault(name, {}).setdefault(sort, []).append((tuple(rest), field))
    properties = {}
    for name, sorts in groups.items():
        path = f"{place}.{name}" if place else name
        properties[name] = _member(contract, sorts, path)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _member(
    contract: Contract, sorts: Mapping[str, Sequence[tuple[tuple[str, ...], Field]]], path: str
) -> dict[str, Any]:
    if "" in sorts:
        rest, field = sorts[""][0]
        form = _object(contract, sorts[""], path) if rest else dict(field.form)
    else:
        items = [
            _object(contract, members, path if sort == "]" else f"{path}[{sort}")
            for sort, members in sorts.items()
        ]
        form = {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}}
    return {"anyOf": [form, {"type": "null"}]} if (contract.name, path) in ABSENT else form
