"""The name of a stream as one part of an address.

Names hold colons, which an address may; a name of a row that was rewritten may hold anything. What a server
or a browser between could read as its own (slashes, dots at the beginning, the escape itself) is written as
`~` and two hexadecimal digits, which all of them leave alone.
"""

import re
from typing import Final

from django.urls import NoReverseMatch, reverse
from django.urls.converters import StringConverter

_ESCAPED: Final = re.compile(r"~([0-9A-F]{2})")
_EMPTY: Final = "~"


class StreamConverter(StringConverter):
    """The converter of addresses, registered in `runtime.urls`."""

    regex = r"[^/]+"

    def to_python(self, value: str) -> str:
        """The name that an address holds. Raises ValueError, so no page, for what `to_url` never makes."""
        if value == _EMPTY:
            return ""
        name = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
        if self.to_url(name) != value:
            raise ValueError(value)
        return name

    def to_url(self, value: str) -> str:
        """The name as one part of an address."""
        name = str(value)  # the streams of flows are UUIDs in rows
        first, rest = name[:1], name[1:]
        first = "~2E" if first == "." else first
        escaped = "".join(f"~{ord(char):02X}" if char in "~/\\" else char for char in rest)
        head = f"~{ord(first):02X}" if first in {"~", "/", "\\"} else first
        return (head + escaped) or _EMPTY


def entry_url(stream: object, seq: object) -> str:
    """The address of an entry; empty where a cell of its row holds what no entry has."""
    try:
        return reverse("entry", args=[stream, seq])
    except (NoReverseMatch, TypeError):
        return ""
