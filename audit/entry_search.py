"""Entries of all streams by what auditors know of them: each key is answered by an index, none by a scan."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Q, QuerySet

from audit.models import LedgerEntry

_HASH_DIGITS: Final = 64
LEAST_OF_HASH: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryFilter:
    """What is asked; empty fields ask nothing. `since` is included, `until` is not.

    `streams` is None where any stream will do; `hash` is the beginning of one, in hexadecimal.
    """

    streams: frozenset[str] | None = None
    kind: str = ""
    actors: tuple[str, ...] = ()
    hash: str = ""
    since: datetime | None = None
    until: datetime | None = None


def search(*, tenant: str, wanted: EntryFilter, before: int | None, size: int) -> Sequence[LedgerEntry]:
    """The newest entries that match, or those before the entry with this key, newest first.

    In one stream by their numbers, and by time where nothing else is asked: so an index gives their order.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, **_exact(wanted))
    for actor in wanted.actors:
        rows = rows.filter(actor=actor)
    if wanted.streams is not None and len(wanted.streams) == 1:
        (stream,) = wanted.streams
        return _in_stream(rows.filter(stream=stream), before, size)
    if wanted.streams is not None:
        return _sorted(rows.filter(stream__in=wanted.streams), before, size)
    if wanted.hash:
        return _sorted(rows, before, size)
    if (wanted.since or wanted.until) and not (wanted.kind or wanted.actors or wanted.hash):
        return _by_time(rows, before, size)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:size])


def hash_range(prefix: str) -> tuple[bytes, bytes]:
    """The least and the greatest hash that begin with these hexadecimal digits."""
    return bytes.fromhex(prefix.ljust(_HASH_DIGITS, "0")), bytes.fromhex(prefix.ljust(_HASH_DIGITS, "f"))


def _exact(wanted: EntryFilter) -> dict[str, Any]:
    asked: dict[str, Any] = {"kind": wanted.kind, "at__gte": wanted.since, "at__lt": wanted.until}
    if wanted.hash:
        asked["hash__gte"], asked["hash__lte"] = hash_range(wanted.hash)
    return {name: value for name, value in asked.items() if value}


def _in_stream(rows: QuerySet[LedgerEntry], before: int | None, size: int) -> Sequence[LedgerEntry]:
    if before is not None:
        # Nothing is below 0, which stands for a row that the stream does not have.
        found = LedgerEntry.objects.filter(pk=before).values_list("seq", flat=True).first()
        rows = rows.filter(seq__lt=found or 0)
    return list(rows.order_by("-seq")[:size])


def _sorted(rows: QuerySet[LedgerEntry], before: int | None, size: int) -> Sequence[LedgerEntry]:
    """The newest of a few rows. By no column, or SQLite reads all entries in that order to find them."""
    rows = rows.alias(place=F("pk") + 0)
    if before is not None:
        rows = rows.filter(place__lt=before)
    return list(rows.order_by("-place")[:size])


def _by_time(rows: QuerySet[LedgerEntry], before: int | None, size: int) -> Sequence[LedgerEntry]:
    if before is not None:
        at = LedgerEntry.objects.filter(pk=before).values_list("at", flat=True).first()
        if at is None:
            return []
        rows = rows.filter(at__lte=at).exclude(Q(at=at, pk__gte=before))
    return list(rows.order_by("-at", "-pk")[:size])
