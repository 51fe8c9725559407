"""Who reads the audit API: the guard of a call finds out, and the call asks here."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose rows are read, and who reads them, as the ledger names them."""

    tenant: str
    name: str


def reader_of(request: HttpRequest) -> Reader:
    """The reader that the guard of this call has found. Raises TypeError where it has no such guard."""
    found: Any = getattr(request, "auth", None)
    if not isinstance(found, Reader):
        raise TypeError("the call is not guarded by a reader")
    return found
