"""A document as text that `document_reading` reads back: what an editor starts with."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from runtime.contracts.document import Contract
from runtime.registry.services import document_reading

WIDTH = 110
# Stored schemas have their keys sorted; people put first what a thing is.
_FIRST = ("type", "title", "description", "enum", "properties", "items")
_ODD_ENDS = frozenset("\x85\u2028\u2029")
# Plain in JSON; to the reader, which takes JSON for YAML, they end a line or may not occur.
_NOT_PLAIN: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class _Dumper(yaml.SafeDumper):
    """Quotes exactly what the reader would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Everything is written out: a person edits one place, not all that refer to it."""
        return True


_Dumper.yaml_implicit_resolvers = document_reading.implicit_resolvers()


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    # A text of several lines is shown as such. What YAML takes for a line end of another sort is escaped.
    style = '"' if _ODD_ENDS & set(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(document: Contract) -> str:
    """The document in the order of its fields, without those that have their default."""
    return value_as_yaml(document.model_dump(mode="json", exclude_defaults=True))


def value_as_yaml(document: Mapping[str, Any]) -> str:
    """The same of a document that may not be valid yet, with all that it has."""
    plain = {
        name: _as_people_write(value) if name.endswith("_schema") else value
        for name, value in document.items()
    }
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)


def value_as_json(document: Any) -> str:
    """The value as JSON, indented; every character that the reader would take for something else escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _NOT_PLAIN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _as_people_write(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_people_write(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    names = [name for name in _FIRST if name in schema]
    names += [name for name in schema if name not in _FIRST]
    return {name: _as_people_write(schema[name]) for name in names}
