"""Which flows received a version of memory, by the contexts and reads that hold it, and what became of them.

A context counts by its own bytes, whose digest is its name in `context:compiled`; a read by its entry. The
newest SEARCHED of each since the item was first active are looked through; `before` goes on with older ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Subquery

from audit import canonical
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.contexts.models import Snapshot
from runtime.contracts import api_schemas
from runtime.flows.models import Flow, Intent, Outcome, Verdict
from runtime.guards.models import Review
from runtime.state.models import MemoryItem

SEARCHED: Final = 5_000
# Shown on one page, and marked by one action.
MOST_FLOWS: Final = 200
_AT_ONCE: Final = 200


@dataclass(kw_only=True)
class Served:
    """A flow that received the item: the contexts that hold it, newest first, and how often it was read."""

    dfid: UUID
    contexts: list[str] = field(default_factory=list)
    reads: int = 0
    first_at: datetime | None = None
    # A flow that one of the others opened after it had received the item.
    is_child: bool = False

    def note(self, at: datetime) -> None:
        """It received the item at `at` too."""
        self.first_at = at if self.first_at is None else min(self.first_at, at)


@dataclass(frozen=True, kw_only=True)
class Touched:
    """What became of a flow that received the item; texts are empty where there is no such row."""

    served: Served
    flow: Flow
    verdict: str
    intent: str
    outcome: str
    review: Review | None


@dataclass(frozen=True, kw_only=True)
class Reader:
    """An agent that read the item outside of any flow: what it did with it is in no entry."""

    agent_id: str
    reads: int
    last_at: datetime


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The blast radius of an item. `older` is where to search on; None where everything was searched.

    `is_whole` is False where there are more than MOST_FLOWS flows.
    """

    flows: Sequence[Touched] = ()
    readers: Sequence[Reader] = ()
    derived: Sequence[MemoryItem] = ()
    searched: int = 0
    older: tuple[int, int] | None = None
    is_whole: bool = True

    @property
    def unmarked(self) -> int:
        """How many of the flows can still be marked for review."""
        return sum(found.review is None and found.flow.erased_at is None for found in self.flows)


def find(*, item: MemoryItem, before: tuple[int, int] | None = None) -> Reach:
    """The flows that received `item`; one in quarantine was never served. `before` is `older` of a search."""
    if item.quarantined:
        return Reach()
    since = item.decided_at or item.written_at
    contexts, entries = before or (None, None)
    served: dict[UUID, Served] = {}
    outside: dict[str, Reader] = {}
    looked, next_context = _look_at_contexts(item, since, contexts, served)
    read, next_entry = _look_at_reads(item, since, entries, served, outside)
    _add_children(served)
    marked = set(Review.objects.filter(memory=item).values_list("flow_id", flat=True))
    dfids = sorted(sorted(served, reverse=True), key=lambda dfid: dfid in marked)
    flows = _follow(item, served, dfids[:MOST_FLOWS])
    is_all = next_context is None and next_entry is None
    sources = [f"flow:{dfid}" for dfid in dfids[:MOST_FLOWS]]
    derived = MemoryItem.objects.of(item.tenant).filter(source__in=sources).select_related("writer")
    return Reach(
        flows=flows,
        readers=sorted(outside.values(), key=lambda reader: reader.agent_id),
        derived=list(derived.order_by("scope", "key", "version")[:MOST_FLOWS]),
        searched=looked + read,
        older=None if is_all else (next_context or 0, next_entry or 0),
        is_whole=len(dfids) <= MOST_FLOWS,
    )


def _look_at_contexts(
    item: MemoryItem, since: datetime, before: int | None, served: dict[UUID, Served]
) -> tuple[int, int | None]:
    rows = Snapshot.objects.filter(flow__tenant=item.tenant, created_at__gte=since)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    columns = rows.order_by("-pk").values_list("pk", "flow_id", "context_ref", "created_at", "body")
    looked, last = 0, None
    for pk, dfid, ref, at, body in columns[:SEARCHED].iterator(chunk_size=_AT_ONCE):
        looked, last = looked + 1, pk
        if _shows(bytes(body), item):
            found = served.setdefault(dfid, Served(dfid=dfid))
            found.contexts.append(ref)
            found.note(at)
    return looked, last if looked == SEARCHED else None


def _shows(body: bytes, item: MemoryItem) -> bool:
    """Whether a context holds this version. Most do not name its key, and are not read any further."""
    if canonical.encode({"key": item.key, "scope": item.scope})[1:-1] not in body:
        return False
    wanted = (item.scope, item.key, item.version)
    try:
        shown = canonical.decode(body)["memory"]
        return any((one["scope"], one["key"], one["version"]) == wanted for one in shown)
    except UNREADABLE:  # a finding of verify_ledger
        return False


def _look_at_reads(
    item: MemoryItem,
    since: datetime,
    before: int | None,
    served: dict[UUID, Served],
    outside: dict[str, Reader],
) -> tuple[int, int | None]:
    rows = LedgerEntry.objects.filter(tenant=item.tenant, kind=Kind.MEMORY_READ, at__gte=since)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    looked, last = 0, None
    for entry in rows.order_by("-pk")[:SEARCHED].iterator(chunk_size=_AT_ONCE):
        looked, last = looked + 1, entry.pk
        said = _said(entry)
        if (said.get("scope"), said.get("key"), said.get("version")) != (item.scope, item.key, item.version):
            continue
        dfid = api_schemas.uuid_of(entry.stream)
        if dfid is not None:
            found = served.setdefault(dfid, Served(dfid=dfid))
            found.reads += 1
            found.note(entry.at)
            continue
        agent_id = str(said["agent_id"])
        known = outside.get(agent_id)
        outside[agent_id] = Reader(
            agent_id=agent_id,
            reads=1 if known is None else known.reads + 1,
            last_at=entry.at if known is None else max(known.last_at, entry.at),
        )
    return looked, last if looked == SEARCHED else None


def _said(entry: LedgerEntry) -> dict[str, Any]:
    try:
        return entry.payload
    except UNREADABLE:  # a finding of verify_ledger
        return {}


def _add_children(served: dict[UUID, Served]) -> None:
    """The flows that those opened afterwards: what they were told of it is in no context of theirs."""
    parents = list(served)
    while parents and len(served) <= MOST_FLOWS:
        below = Flow.objects.filter(parent__in=parents[:MOST_FLOWS]).order_by("dfid")
        found = below.values_list("dfid", "parent_id", "opened_at")[:MOST_FLOWS]
        parents = []
        for dfid, parent, at in found:
            first_at = None if parent is None else served[parent].first_at
            if dfid not in served and (first_at is None or at >= first_at):
                served[dfid] = Served(dfid=dfid, first_at=at, is_child=True)
                parents.append(dfid)


def _follow(item: MemoryItem, served: dict[UUID, Served], dfids: Sequence[UUID]) -> list[Touched]:
    newest = Intent.objects.filter(flow=OuterRef("pk")).order_by("-intent_id")
    verdicts = Verdict.objects.filter(proposal__flow=OuterRef("pk")).order_by("-judged_at", "-pk")
    outcomes = Outcome.objects.filter(intent__flow=OuterRef("pk")).order_by("-recorded_at", "-pk")
    rows = Flow.objects.filter(tenant=item.tenant, dfid__in=dfids).select_related("agent")
    followed = rows.annotate(
        last_verdict=Subquery(verdicts.values("decision")[:1]),
        last_intent=Subquery(newest.values("state")[:1]),
        last_outcome=Subquery(outcomes.values("status")[:1]),
    )
    marked = {row.flow_id: row for row in Review.objects.filter(memory=item, flow_id__in=dfids)}
    return [
        Touched(
            served=served[row.pk],
            flow=row,
            verdict=row.last_verdict or "",
            intent=row.last_intent or "",
            outcome=row.last_outcome or "",
            review=marked.get(row.pk),
        )
        for row in followed.order_by("-dfid")
    ]
