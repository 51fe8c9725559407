"""Reads of the ledger. Pages are cut by key, never by OFFSET, and nothing is counted."""

from collections.abc import Collection

from audit.events import Kind
from audit.models import LedgerEntry, Payload

PAGE_LIMIT = 500


def get_entries(*, tenant: str, stream: str, after_seq: int = 0, limit: int = 100) -> list[LedgerEntry]:
    """Entries of one stream after `after_seq`, oldest first, at most `limit` (and PAGE_LIMIT)."""
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__gt=after_seq)
    return list(entries.order_by("seq")[: min(limit, PAGE_LIMIT)])


def get_recent(
    *, tenant: str, before_id: int | None = None, limit: int = 100, kinds: Collection[Kind] = ()
) -> list[LedgerEntry]:
    """Entries of all streams, newest first, below `before_id`; of the given kinds, or of all.

    The next page starts below the last entry's id.
    """
    entries = LedgerEntry.objects.filter(tenant=tenant)
    if before_id is not None:
        entries = entries.filter(id__lt=before_id)
    if kinds:
        entries = entries.filter(kind__in=list(kinds))
    return list(entries.order_by("-id")[: min(limit, PAGE_LIMIT)])


def get_entry(*, tenant: str, stream: str, seq: int) -> LedgerEntry | None:
    """One entry by its place, or None."""
    return LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq).first()


def get_payload(*, tenant: str, commitment: str) -> bytes | None:
    """The body behind a commitment; None when it is unknown here or was erased."""
    body = Payload.objects.filter(tenant=tenant, commitment=commitment).values_list("body", flat=True).first()
    return None if body is None else bytes(body)
