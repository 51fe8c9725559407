"""What the search over everything finds by a text that was copied from evidence, with the page that shows it.

A record's id, the place of an entry, a hash or digest, a trace, a subject: each is told by its form, and
looked up in an index.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from audit import canonical, entry_search
from audit.entry_search import EntryFilter
from audit.models import LedgerEntry
from audit.records import queries as records
from audit.records.queries import Record, RecordFilter
from dir_console.explorer import digests
from dir_console.search_hits import Group, Hit
from runtime.core.views import stream_names
from runtime.flows.queries import explored_flows

SHOWN: Final = 8
_HASH: Final = re.compile(r"(?:sha256:)?([0-9a-f]{12,64})", re.ASCII | re.IGNORECASE)
_TRACE: Final = re.compile(
    r"(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?", re.ASCII | re.IGNORECASE
)
# As contracts write the place of an entry, and as pages do.
_PLACE: Final = re.compile(r"(.+?)(?::| ?#)([1-9][0-9]{0,15})")


def find(*, tenant: str, text: str) -> Iterator[Group]:
    """The groups of what has the text as its id, its place or its hash."""
    if not text.isprintable():
        return
    yield Group(title="Decision records", hits=list(_records(tenant, text)))
    yield Group(title="Ledger entries", hits=list(_places(tenant, text)))
    if found := _HASH.fullmatch(text):
        yield from _of_hash(tenant, found[1].lower())
    if found := _TRACE.fullmatch(text):
        yield Group(title="Flows, by trace", hits=list(_of_trace(tenant, found[1].lower())))
    yield Group(title="Subjects", hits=list(_subjects(tenant, text)))


def _records(tenant: str, text: str) -> Iterator[Hit]:
    if records.flow_of(text) is None:
        return
    if records.get(tenant=tenant, record_id=text) is not None:
        yield Hit(word="Decision record", url=reverse("record", args=[text]), icon="shield", ident=text)


def _places(tenant: str, text: str) -> Iterator[Hit]:
    place = _PLACE.fullmatch(text)
    if place is None or int(place[2]) > canonical.MAX_SAFE_INTEGER:
        return
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=place[1].strip(), seq=int(place[2]))
    yield from map(_entry, rows)


def _of_hash(tenant: str, prefix: str) -> Iterator[Group]:
    rows = entry_search.search(tenant=tenant, wanted=EntryFilter(hash=prefix), before=None, size=SHOWN)
    yield Group(title="Ledger entries, by hash", hits=list(map(_entry, rows)))
    found = records.search(tenant=tenant, wanted=RecordFilter(record_hash=prefix), size=SHOWN)
    yield Group(
        title="Decision records, by hash",
        hits=[
            Hit(
                word="Decision record",
                url=reverse("record", args=[row.record_id]),
                icon="shield",
                ident=row.record_id,
            )
            for row in found.rows
            if isinstance(row, Record)
        ],
    )
    named = [each for each in digests.find(tenant=tenant, prefix=prefix) if each.url]
    yield Group(
        title="Digests",
        hits=[
            Hit(word=each.what, url=each.url, icon="record", ident=each.digest, detail=each.name)
            for each in named[:SHOWN]
        ],
        more_url=f"{reverse('explore')}?{urlencode({'hash': prefix})}" if len(named) > SHOWN else "",
    )


def _of_trace(tenant: str, trace_id: str) -> Iterator[Hit]:
    for dfid in sorted(explored_flows.list_of_trace(tenant=tenant, trace_id=trace_id, size=SHOWN)):
        yield Hit(word="Flow", url=reverse("flow", args=[dfid]), icon="flow", ident=str(dfid))


def _subjects(tenant: str, text: str) -> Iterator[Hit]:
    if ":" in text and records.list_flows(tenant=tenant, wanted=RecordFilter(subject=text), size=1):
        url = f"{reverse('explore')}?{urlencode({'subject': text})}"
        yield Hit(word=text, url=url, icon="record", detail="flows, records and entries")


def _entry(row: LedgerEntry) -> Hit:
    url = stream_names.entry_url(row.stream, row.seq)
    return Hit(word=row.kind, url=url, icon="ledger", ident=f"{row.stream}:{row.seq}")
