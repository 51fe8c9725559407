"""Ids of what belongs to flows, turned into the flows: by them flows, records and entries are all found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final
from uuid import UUID

from audit import entry_search
from audit.entry_search import EntryFilter
from audit.records import queries as records
from audit.records.queries import RecordFilter
from dir_console.explorer import digests
from dir_console.explorer.asked import AskedKeys
from dir_console.explorer.digests import Named
from escalations import queries as escalations
from runtime.contexts.queries import snapshots
from runtime.core.views import query_params
from runtime.flows.queries import explored_flows, id_lookups

# A key that is meant to name one thing, and could be in more flows than anybody reads.
MOST: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowed:
    """The flows that the ids lead to, and those that have the hash; None where nothing of the sort is given.

    `is_cut`: there may be more of them. `named` is what has the digest that was asked for.
    """

    dfids: frozenset[UUID] | None
    of_hash: frozenset[UUID] | None
    is_cut: bool
    named: tuple[Named, ...]

    @property
    def both(self) -> frozenset[UUID] | None:
        """The flows that have all of it."""
        if self.dfids is None or self.of_hash is None:
            return self.of_hash if self.dfids is None else self.dfids
        return self.dfids & self.of_hash


def narrow(*, tenant: str, asked: AskedKeys) -> Narrowed:
    """The flows that have all the ids that are given."""
    found: list[frozenset[UUID]] = []
    for name, search in _SEARCHES.items():
        if asked.value(name):
            found.append(frozenset(search(tenant, asked.value(name))))
    named: tuple[Named, ...] = ()
    of_hash = None
    if asked.value("hash"):
        named = tuple(digests.find(tenant=tenant, prefix=asked.value("hash")))
        of_hash = _of_hash(tenant, asked.value("hash"), named)
    return Narrowed(
        dfids=reduce(frozenset.intersection, found) if found else None,
        of_hash=of_hash,
        is_cut=any(len(each) >= MOST for each in (*found, of_hash or ())),
        named=named,
    )


def _of_record(tenant: str, record_id: str) -> Iterable[UUID]:
    dfid = records.flow_of(record_id)
    return [] if dfid is None else [dfid]


def _of_escalation(tenant: str, part: str) -> Iterable[UUID]:
    rows = escalations.list_by_part_of_id(tenant=tenant, part=part, size=MOST)
    return (row.flow_id for row in rows)


def _of_context(tenant: str, prefix: str) -> Iterable[UUID]:
    low, high = digests.text_range(prefix)
    return (dfid for _, dfid in snapshots.list_flows_of(tenant=tenant, low=low, high=high, size=MOST))


_SEARCHES: Final[Mapping[str, Callable[[str, str], Iterable[UUID]]]] = {
    "record": _of_record,
    "escalation": _of_escalation,
    "intent": lambda tenant, part: (
        dfid for _, dfid in id_lookups.list_intents(tenant=tenant, part=part, size=MOST)
    ),
    "proposal": lambda tenant, part: (
        dfid for _, dfid in id_lookups.list_proposals(tenant=tenant, part=part, size=MOST)
    ),
    "context": _of_context,
    "trace": lambda tenant, trace: explored_flows.list_of_trace(tenant=tenant, trace_id=trace, size=MOST),
}


def _of_hash(tenant: str, prefix: str, named: Iterable[Named]) -> frozenset[UUID]:
    """The flows of what has the digest, of the records and of the entries with the hash."""
    found = {each.dfid for each in named if each.dfid is not None}
    found |= records.list_flows(tenant=tenant, wanted=RecordFilter(record_hash=prefix), size=MOST)
    wanted = EntryFilter(hash=prefix)
    for row in entry_search.search(tenant=tenant, wanted=wanted, before=None, size=MOST):
        if dfid := query_params.uuid(row.stream):
            found.add(dfid)
    return frozenset(found)
