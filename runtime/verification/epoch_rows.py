"""The lives of the database against the entries that ended and began them, for `verify_ledger`.

A row that claims that nothing was restored would let an old backup run without a signature.
"""

from collections.abc import Callable, Mapping
from typing import Any

from audit import actors
from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.epochs.models import Epoch

Columns = dict[str, tuple[Entry, Any]]
FIRST = 1  # made with the tables, so that no entry is about it


class EpochRowCheck(row_checks.LastingRows):
    """Epochs: that each restore is known, and that each new life was begun by an admin."""

    kinds = frozenset({Kind.EPOCH_RESTORED, Kind.EPOCH_BEGUN})
    not_proved = (
        NotProved("runtime_epoch", ("database_id", "began_at"), "the first epoch begins with the tables"),
    )

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def take(self, entry: Entry) -> None:
        """Keep the entry; there are few."""
        self._entries.append(entry)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The one table."""
        return {"epochs": self._epochs}

    def _epochs(self, found: Found) -> None:
        rows = {row.number: row for row in Epoch.objects.all()}
        # The columns of each epoch as its entries give them, with the entry of each.
        told: dict[int, Columns] = {FIRST: {}}
        current = FIRST
        for entry in sorted(self._entries, key=lambda item: item.seq):
            number = entry.payload["epoch"]
            if entry.kind == Kind.EPOCH_RESTORED:
                told.setdefault(number, {})["restored_at"] = (entry, entry.at)
                told[number]["missing"] = (entry, entry.payload.get("missing_digest"))
                told[number] |= _database(entry)
            else:
                told[current]["ended_at"] = (entry, entry.at)
                told[number] = {"began_at": (entry, entry.at), **_database(entry)}
            current = number
        for number, columns in told.items():
            row = rows.pop(number, None)
            last = next(reversed(columns.values()))[0] if columns else None
            if row is not None:
                _compare(found, row, columns)
            elif last is not None:
                found.missing(last, f"the epoch {number}")
            else:
                found.breaks.append(
                    ChainBreak("", actors.SYSTEM, 0, BreakKind.ROW_MISSING, "the first epoch is missing")
                )
        for number in rows:
            found.without_entry("", actors.SYSTEM, f"the epoch {number}")


def _database(entry: Entry) -> Columns:
    """Which database it is; older entries do not record it."""
    database_id = entry.payload.get("database_id")
    return {} if database_id is None else {"database_id": (entry, database_id)}


def _compare(found: Found, row: Epoch, columns: Columns) -> None:
    if "database_id" in columns:
        entry, recorded = columns["database_id"]
        found.same(entry, "epoch.database_id", recorded, str(row.database_id))
    for name in ("began_at", "restored_at", "ended_at"):
        stored = getattr(row, name)
        if name in columns:
            entry, at = columns[name]
            if not row_checks.is_then(at, stored):
                found.same(entry, f"epoch.{name}", at, stored)
        elif name != "began_at" and stored is not None:
            found.without_entry("", actors.SYSTEM, f"{name} of the epoch {row.number}")
    if "missing" not in columns:
        if bytes(row.missing):
            found.without_entry("", actors.SYSTEM, f"what is missing in the epoch {row.number}")
        return
    entry, digest = columns["missing"]
    if digest is not None:
        found.bytes(entry, "epoch.missing", digest, row.missing)
