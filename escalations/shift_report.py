"""Reads for the page of a shift: what is open, what is one's own, and what happened since it began.

Every list has a bound. What happened is read from the ledger, by kind, the newest first.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Q

from audit import events
from audit.events import EscalationDecided, EscalationReopened, Event, Kind, OutcomeRecorded
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from escalations.contracts import Family, State
from escalations.models import Escalation
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.core import ids, paging

MOST_OPEN = 30
MOST_MINE = 30
MOST_DECIDED = 50
MOST_OF_KIND = 10
NOTEWORTHY = (
    Kind.ESCALATION_EXPIRED,
    Kind.ESCALATION_REOPENED,
    Kind.INTENT_IN_DOUBT,
    Kind.AGENT_STOPPED,
    Kind.SYSTEM_STOPPED,
    Kind.CIRCUIT_OPENED,
)


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision as its entry records it; `outcome` is that of the call which followed, if one has ended.

    `escalation` is None where its row is gone.
    """

    at: datetime
    actor: str
    action: str
    escalation: Escalation | None
    outcome: str
    was_taken_back: bool


def list_open(*, tenant: str) -> paging.Page[Escalation]:
    """Open escalations: the heaviest first, then the nearest deadline; those without one before the rest."""
    rows = Escalation.objects.of(tenant).filter(state=State.OPEN).select_related("claimed_by")
    rows = rows.prefetch_related("decisions")
    ordered = rows.order_by("-impact_rank", F("deadline_at").asc(nulls_first=True), "escalation_id")
    return paging.cut(list(ordered[: MOST_OPEN + 1]), MOST_OPEN)


def list_claimed(*, tenant: str, user_pk: int, now: datetime) -> list[Escalation]:
    """Open escalations whose live claim is the person's."""
    rows = Escalation.objects.of(tenant).filter(state=State.OPEN, claimed_by=user_pk, claimed_until__gt=now)
    rows = rows.select_related("claimed_by").prefetch_related("decisions")
    return list(rows.order_by("deadline_at", "escalation_id")[:MOST_MINE])


def list_escalations(*, tenant: str, ids: Collection[UUID]) -> dict[UUID, Escalation]:
    """Escalations by their ids, with what a list shows of them."""
    rows = Escalation.objects.of(tenant).filter(pk__in=ids).select_related("claimed_by", "flow")
    return {row.pk: row for row in rows.prefetch_related("decisions__approver")}


def list_decided(*, tenant: str, since: datetime) -> paging.Page[Decided]:
    """The decisions since a moment, by everybody, the newest first."""
    page = _since(tenant, Kind.ESCALATION_DECIDED, since, MOST_DECIDED)
    decisions = [(entry, event) for entry, event in _read(page.rows) if isinstance(event, EscalationDecided)]
    named = {UUID(event.escalation_id) for _, event in decisions}
    rows = list_escalations(tenant=tenant, ids=named)
    after = LedgerEntry.objects.filter(
        tenant=tenant,
        stream__in={entry.stream for entry, _ in decisions},
        kind__in=(Kind.OUTCOME_RECORDED, Kind.ESCALATION_REOPENED),
    )
    outcomes: dict[str, tuple[int, str]] = {}
    taken_back: set[tuple[str, int]] = set()
    for entry, event in _read(after.order_by("seq")):
        if isinstance(event, OutcomeRecorded):
            outcomes[entry.stream] = (entry.seq, event.status)
        elif isinstance(event, EscalationReopened):
            taken_back.add((event.escalation_id, event.sequence))
    return paging.Page(
        rows=[
            Decided(
                at=entry.at,
                actor=entry.actor,
                action=event.action,
                escalation=rows.get(UUID(event.escalation_id)),
                outcome=outcome if seq > entry.seq else "",
                was_taken_back=(event.escalation_id, event.sequence) in taken_back,
            )
            for entry, event in decisions
            for seq, outcome in (outcomes.get(entry.stream, (0, "")),)
        ],
        more=page.more,
    )


def list_noteworthy(*, tenant: str, since: datetime) -> paging.Page[LedgerEntry]:
    """What should not go unnoticed, the newest first; `MOST_OF_KIND` of each kind."""
    pages = [_since(tenant, kind, since, MOST_OF_KIND) for kind in NOTEWORTHY]
    found = sorted((entry for page in pages for entry in page.rows), key=lambda entry: (entry.at, entry.pk))
    return paging.Page(rows=found[::-1], more=any(page.more for page in pages))


def list_trouble(*, tenant: str, since: datetime) -> Sequence[Escalation]:
    """Agents that fell silent and steps that could not be undone: their escalations, the newest first."""
    # The ids are UUIDv7: they begin with the time, so the primary key finds the period.
    first = ids.uuid7(timestamps.to_ms(since), bytes(ids.RANDOM_BYTES))
    rows = Escalation.objects.of(tenant).filter(
        Q(family=Family.AGENT) | Q(reason=Reason.COMPENSATION_FAILED), escalation_id__gte=first
    )
    return list(rows.prefetch_related("decisions").order_by("-escalation_id")[: 2 * MOST_OF_KIND])


def _since(tenant: str, kind: Kind, since: datetime, most: int) -> paging.Page[LedgerEntry]:
    """The newest entries of a kind, cut at a moment: read by the index of (kind, id), never beyond `most`."""
    newest = list(LedgerEntry.objects.filter(tenant=tenant, kind=kind).order_by("-id")[: most + 1])
    return paging.cut([entry for entry in newest if entry.at >= since], most)


def _read(entries: Iterable[LedgerEntry]) -> Iterator[tuple[LedgerEntry, Event]]:
    """Entries with what they record; one that cannot be read proves nothing."""
    for entry in entries:
        with contextlib.suppress(*UNREADABLE):
            yield entry, events.read(entry.kind, entry.payload)
