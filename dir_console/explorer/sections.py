"""The three searches of the page: which keys each answers, and what it finds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from django.contrib.auth import get_user_model

from audit import actors, canonical, cells, entry_search
from audit.entry_search import EntryFilter
from audit.models import LedgerEntry
from audit.records import queries as records
from audit.records.queries import Found, RecordFilter
from audit.verification.verify import UNREADABLE
from dir_console.explorer.asked import KEYS, AskedKeys
from dir_console.explorer.narrowing import MOST, Narrowed
from runtime.core import id_search
from runtime.flows.models import Flow
from runtime.flows.queries import explored_flows
from runtime.flows.queries.explored_flows import FlowKeys
from runtime.registry.queries import people

SIZE: Final = 25
# Of flows that have a digest, so many are read for the entries that name it.
MOST_READ: Final = 20
MOST_ENTRIES: Final = 2000
_OF_FLOWS: Final = {"record", "escalation", "intent", "proposal", "hash", "context", "trace"}
FLOWS: Final = {
    *_OF_FLOWS,
    "dfid",
    "agent",
    "kind",
    "state",
    "reason",
    "resource",
    "subject",
    "approver",
    "from",
    "to",
}
RECORDS: Final = {*_OF_FLOWS, "dfid", "agent", "kind", "subject", "approver", "from", "to"}
ENTRIES: Final = {
    *_OF_FLOWS,
    "dfid",
    "agent",
    "subject",
    "approver",
    "stream",
    "event",
    "actor",
    "from",
    "to",
}
ANSWERED: Final[Mapping[str, set[str]]] = {"flows": FLOWS, "records": RECORDS, "entries": ENTRIES}


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """One request: who asks for what."""

    tenant: str
    asked: AskedKeys
    narrowed: Narrowed

    def unanswered(self, section: str) -> list[str]:
        """The words of the keys by which this section is not found: it shows nothing then."""
        return [KEYS[name].partition(",")[0] for name in self.asked.names if name not in ANSWERED[section]]

    def flows(self, before: UUID | None) -> Sequence[Flow]:
        """The flows, one more than a page."""
        asked = self.asked
        wanted = FlowKeys(
            dfids=self._of_records(self.narrowed.both, asked.value("subject"), asked.value("approver")),
            part=asked.value("dfid"),
            agent=asked.value("agent"),
            kind=asked.value("kind"),
            state=asked.value("state"),
            reason=asked.value("reason"),
            resource=asked.value("resource"),
            since=asked.since,
            until=asked.until,
        )
        return explored_flows.search(tenant=self.tenant, wanted=wanted, before=before, size=SIZE + 1)

    def records(self, after: int | None) -> Found:
        """The records, a page of them."""
        asked = self.asked
        wanted = RecordFilter(
            decision_key=asked.value("kind").upper(),
            subject=asked.value("subject"),
            approver=asked.value("approver"),
            agent_id=asked.value("agent"),
            record_id=asked.value("record"),
            dfids=self._with_part(self.narrowed.both),
            since=asked.since,
            until=asked.until,
        )
        return records.search(tenant=self.tenant, wanted=wanted, after=after, size=SIZE)

    def entries(self, before: int | None) -> Sequence[LedgerEntry]:
        """The entries, one more than a page.

        A hash is that of an entry, or is named by one; those that name it are few, so they have one page.
        """
        asked = self.asked
        named = [
            people.actor_of_name(asked.value("actor")),
            actors.agent(asked.value("agent")) if asked.value("agent") else "",
            _person(asked.value("approver")),
        ]
        wanted = EntryFilter(
            streams=self._streams(),
            kind=asked.value("event"),
            actors=tuple(dict.fromkeys(actor for actor in named if actor)),
            since=asked.since,
            until=asked.until,
        )
        if asked.value("hash"):
            return self._of_hash(wanted)
        return entry_search.search(tenant=self.tenant, wanted=wanted, before=before, size=SIZE + 1)

    def _of_hash(self, wanted: EntryFilter) -> Sequence[LedgerEntry]:
        """The entries with the hash, then those of its flows that name it."""
        prefix = self.asked.value("hash")
        own = replace(wanted, hash=prefix)
        found = list(entry_search.search(tenant=self.tenant, wanted=own, before=None, size=SIZE))
        flows = sorted(str(each.dfid) for each in self.narrowed.named if each.dfid is not None)
        streams = frozenset(flows[:MOST_READ])
        if wanted.streams is not None:
            streams &= wanted.streams
        around = replace(wanted, streams=streams)
        rows = entry_search.search(tenant=self.tenant, wanted=around, before=None, size=MOST_ENTRIES)
        found += [row for row in rows if _names(row, prefix)]
        return list({row.pk: row for row in found}.values())[:SIZE]

    def _streams(self) -> frozenset[str] | None:
        dfids = self._with_part(self._of_records(self.narrowed.dfids, self.asked.value("subject"), ""))
        streams = None if dfids is None else frozenset(map(str, dfids))
        if not self.asked.value("stream"):
            return streams
        named = frozenset({people.actor_of_name(self.asked.value("stream"))})
        return named if streams is None else named & streams

    def _of_records(
        self, dfids: frozenset[UUID] | None, subject: str, approver: str
    ) -> frozenset[UUID] | None:
        """Of these flows those whose newest records have the subject and the approver."""
        if not (subject or approver):
            return dfids
        wanted = RecordFilter(subject=subject, approver=approver, dfids=dfids)
        return records.list_flows(tenant=self.tenant, wanted=wanted, size=MOST)

    def _with_part(self, dfids: frozenset[UUID] | None) -> frozenset[UUID] | None:
        """The flows that have the part of an id, too; a part finds the newest `MOST`."""
        if not self.asked.value("dfid"):
            return dfids
        if len(self.asked.value("dfid")) == id_search.DIGITS:
            # Its entries and records outlive its row.
            whole = frozenset({UUID(self.asked.value("dfid"))})
            return whole if dfids is None else whole & dfids
        wanted = FlowKeys(part=self.asked.value("dfid"), dfids=dfids)
        rows = explored_flows.search(tenant=self.tenant, wanted=wanted, before=None, size=MOST)
        return frozenset(row.pk for row in rows)


def _person(name: str) -> str:
    """A person as the ledger names them; for nobody's name a name that no actor has."""
    if not name or actors.is_user(name):
        return name
    found = get_user_model().objects.filter(username__iexact=name).values_list("pk", flat=True).first()
    return actors.user(name if found is None else found)


def _names(row: LedgerEntry, prefix: str) -> bool:
    """Whether a value of the payload begins so."""
    try:
        payload = canonical.decode(cells.bytes_of(row.body) or b"")["payload"]
        return any(isinstance(value, str) and value.startswith(prefix) for value in payload.values())
    except (AttributeError, *UNREADABLE):
        return False
