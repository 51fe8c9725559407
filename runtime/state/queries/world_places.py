"""Where a version of the world is among the entries of other streams: what had come before it, and what not.

SQLite has one writer, so entries are in the order of their commits. On PostgreSQL the order is that of the
leaves: the sealer gives a version its number together with them, so what is before it never changes.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from django.db import connection

from audit.events import Kind
from audit.models import Leaf, LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.state.models import WorldVersion

# An entry is never older than its write, and only later where a clock was set back.
_WITHIN: Final = (timedelta(seconds=10), timedelta(days=1))
_MOST_READ: Final = 2_000


def find_place(*, tenant: str, version: int) -> int | None:
    """The first entry of the write that made a version, as the place for `list_before`.

    None where no entry tells, as of a version from before writes had ids.
    """
    row = WorldVersion.objects.of(tenant).filter(version=version).first()
    if row is None:
        return None
    entries = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.FACT_WRITTEN, at__gte=row.written_at)
    for within in _WITHIN:
        near = entries.filter(at__lte=row.written_at + within).order_by("at", "id")[:_MOST_READ]
        found = next((entry for entry in near if _write_of(entry) == row.write_id), None)
        if found is not None:
            return _place_of(found.pk)
    return None


def list_before(entries: Collection[LedgerEntry], place: int) -> list[LedgerEntry]:
    """Those of these entries that had come before a place."""
    if connection.vendor == "sqlite":
        return [entry for entry in entries if entry.pk < place]
    leaves = dict(
        Leaf.objects.filter(entry_id__in=[entry.pk for entry in entries]).values_list("entry_id", "index")
    )
    return [entry for entry in entries if leaves.get(entry.pk, place) < place]


def _place_of(entry_pk: int) -> int | None:
    if connection.vendor == "sqlite":
        return entry_pk
    return Leaf.objects.filter(entry_id=entry_pk).values_list("index", flat=True).first()


def _write_of(entry: LedgerEntry) -> str | None:
    try:
        write_id = entry.payload.get("write_id")
    except UNREADABLE:  # a finding of verify_ledger
        return None
    return str(write_id) if write_id else None
