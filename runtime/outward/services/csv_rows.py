"""Entries as rows of CSV (RFC 4180), which a spreadsheet does not take for formulas."""

import csv
import io
from collections.abc import Sequence
from typing import Final

from audit import canonical, chain
from runtime.contracts.receiver import SealedEntry

MEDIA_TYPE: Final = "text/csv; charset=utf-8; header=present"
COLUMNS: Final = (
    "leaf",
    "time",
    "tenant",
    "stream",
    "seq",
    "kind",
    "actor",
    "hash",
    "prev_hash",
    "payload",
)
# A spreadsheet runs what begins so; an apostrophe before it makes it a text.
_FORMULA: Final = ("=", "+", "-", "@", "\t")


def header() -> bytes:
    """The names of the columns, as the first row."""
    return _row(COLUMNS)


def encode(entry: SealedEntry) -> bytes:
    """One row with its line end; `payload` is JSON."""
    body = entry.body
    cells = (
        str(entry.leaf),
        chain.time_text(entry.at),
        body["tenant"],
        entry.stream,
        str(body["seq"]),
        entry.kind,
        body["actor"],
        entry.entry_hash,
        entry.prev_hash,
        canonical.encode(dict(entry.payload)).decode(),
    )
    return _row([_harmless(str(cell)) for cell in cells])


def _harmless(cell: str) -> str:
    """Of one line, and no formula. JSON is neither already."""
    cell = " ".join(cell.splitlines())
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _row(cells: Sequence[str]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(cells)
    return written.getvalue().encode()
