"""A contract as YAML text that `pack_reading` reads back to the same document: what an editor begins with."""

from typing import Any

import yaml

from runtime.contracts.policy_kind import Contract
from runtime.services import pack_reading

WIDTH = 110
_ODD_ENDS = frozenset("\x85\u2028\u2029")


class _Dumper(yaml.SafeDumper):
    """Quotes exactly what the reader would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Everything is written out: a person edits one place, not all that refer to it."""
        return True


_Dumper.yaml_implicit_resolvers = pack_reading.implicit_resolvers()


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    # A text of several lines is shown as such. What YAML takes for a line end of another sort is escaped.
    style = '"' if _ODD_ENDS & set(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(document: Contract) -> str:
    """The document in the order of its fields, without those that have their default."""
    plain = document.model_dump(mode="json", exclude_defaults=True)
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
