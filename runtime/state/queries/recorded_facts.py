"""Versions of facts compared with the ledger entries about them, a page at a time."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from audit import cells
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.state.models import FactVersion


class Recorded(StrEnum):
    """How a version compares with its entry; NOT_FOUND: none has its time, as after a clock was set."""

    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    NOT_FOUND = "NOT_FOUND"


def compare(tenant: str, rows: Collection[FactVersion]) -> dict[int, Recorded]:
    """How each of these versions compares, by primary key, in one query by the times of the rows."""
    entries = LedgerEntry.objects.filter(
        tenant=tenant, kind=Kind.FACT_WRITTEN, at__in={row.written_at for row in rows}
    )
    digests = _digests(list(entries))
    found = {}
    for row in rows:
        recorded = digests.get((row.path, row.version))
        if recorded is None:
            found[row.pk] = Recorded.NOT_FOUND
        else:
            is_same = recorded == (cells.digest_of(row.value), row.writer)
            found[row.pk] = Recorded.SAME if is_same else Recorded.DIFFERENT
    return found


def _digests(entries: Sequence[LedgerEntry]) -> dict[tuple[str, int], tuple[str, str]]:
    found = {}
    for entry in entries:
        try:
            said = entry.payload
            found[said["path"], said["version"]] = (said["digest"], said["writer"])
        except UNREADABLE:  # a finding of verify_ledger
            continue
    return found
