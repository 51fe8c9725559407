"""The round of the rules: walks the entries once, in the order of the tree, and opens what a rule asks for.

The tree's order is safe: a leaf is given after the commit, and no number is left out. The cursor moves in the
transaction that opens or joins, so that an entry is counted once, whatever crashes between.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from audit import actors, canonical, events
from audit.models import Leaf, LedgerEntry
from runtime.contracts.incident import LIVE, LONGEST_TITLE, IncidentRule, LinkKind, RuleState
from runtime.core import clock, ports, transactions
from runtime.flows.models import Flow
from runtime.incidents.models import Incident, IncidentRuleRow, RuleCursor, RuleSighting
from runtime.incidents.queries import rule_list
from runtime.incidents.queries.linkable import Linkable
from runtime.incidents.services import journal
from runtime.incidents.services.journal import IncidentJournal
from runtime.kernel import incident_matching
from runtime.kernel.incident_matching import Seen
from runtime.registry.models import Agent, Target

BATCH: Final = 200
MOST_BATCHES: Final = 20
# Beyond this an incident counts what joins it, and links no more of it.
MOST_LINKED: Final = 50
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Walked:
    leaves: int = 0
    opened: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """An entry that matches, with its place in the tree."""

    leaf: int
    entry: LedgerEntry
    seen: Seen


@dataclass(slots=True)
class _Joins:
    """What is added to one live incident in this walk."""

    incident: Incident
    matches: list[_Match] = field(default_factory=list)


def run() -> int:
    """Walk as far as the tree goes, within bounds; returns how many incidents were opened."""
    if not IncidentRuleRow.objects.filter(state=RuleState.ACTIVE).exists() or not _has_news():
        return 0
    opened = 0
    for _ in range(MOST_BATCHES):
        walked = walk()
        opened += walked.opened
        if walked.leaves < BATCH:
            break
    return opened


def _has_news() -> bool:
    """Whether the tree has grown, asked without a lock: most rounds find nothing."""
    next_leaf = RuleCursor.objects.values_list("next_leaf", flat=True).first()
    return next_leaf is not None and Leaf.objects.filter(index__gte=next_leaf).exists()


@transactions.retried
def walk() -> _Walked:
    """One batch of leaves in one transaction."""
    cursor = RuleCursor.objects.select_for_update().first()
    if cursor is None:
        return _Walked()
    ahead = Leaf.objects.filter(index__gte=cursor.next_leaf).order_by("index")
    leaves = list(ahead.values_list("index", "entry_id")[:BATCH])
    if not leaves:
        return _Walked()
    opened = _look(leaves)
    moved = RuleCursor.objects.filter(pk=cursor.pk, next_leaf=cursor.next_leaf)
    if moved.update(next_leaf=leaves[-1][0] + 1) != 1:
        raise transactions.ConcurrentUpdateError
    return _Walked(leaves=len(leaves), opened=opened)


def _look(leaves: Sequence[tuple[int, int]]) -> int:
    rules = rule_list.list_active()
    kinds = {kind for _, document in rules for kind in document.kinds}
    place = {pk: leaf for leaf, pk in leaves}
    entries = LedgerEntry.objects.filter(pk__in=list(place), kind__in=list(kinds)) if kinds else ()
    seen = sorted(_seen(entries, place), key=lambda match: match.leaf)
    opened = 0
    for row, document in rules:
        opened += _count(row, document, [match for match in seen if match.entry.tenant == row.tenant])
    return opened


def _seen(entries: Iterable[LedgerEntry], place: Mapping[int, int]) -> list[_Match]:
    """The entries as rules see them; one that cannot be read is none of theirs: `verify_ledger` names it."""
    read = []
    for entry in entries:
        try:
            payload = entry.payload
        except (canonical.CanonicalError, KeyError, TypeError):
            continue
        if isinstance(payload, dict):
            read.append((entry, payload))
    dfids = {dfid for entry, _ in read if (dfid := _dfid(entry.stream)) is not None}
    flows = Flow.objects.select_related("agent").in_bulk(list(dfids)) if dfids else {}
    return [
        _Match(leaf=place[entry.pk], entry=entry, seen=_as_seen(entry, payload, flows))
        for entry, payload in read
    ]


def _as_seen(entry: LedgerEntry, payload: Mapping[str, Any], flows: Mapping[UUID, Flow]) -> Seen:
    dfid = _dfid(entry.stream)
    flow = None if dfid is None else flows.get(dfid)
    if flow is None:
        agent = entry.stream.removeprefix(actors.AGENT) if entry.stream.startswith(actors.AGENT) else ""
        return Seen(
            kind=entry.kind,
            payload=payload,
            agent_id=str(payload.get("agent_id") or agent),
            policy_kind=str(payload.get("policy_kind") or ""),
        )
    return Seen(
        kind=entry.kind,
        payload=payload,
        dfid=str(dfid),
        agent_id=flow.agent.agent_id,
        policy_kind=flow.policy_kind,
    )


def _count(row: IncidentRuleRow, document: IncidentRule, seen: Sequence[_Match]) -> int:
    """Count what matches one rule: into its live incident, or until it is one too many."""
    joins: dict[str, _Joins] = {}
    opened = 0
    for match in seen:
        if match.leaf < (row.from_leaf or 0) or not incident_matching.matches(document, match.seen):
            continue
        group = incident_matching.group_of(document, match.seen)
        if group is None:
            continue
        if group not in joins and (live := _live(row, group)) is not None:
            joins[group] = _Joins(live)
        if group in joins:
            joins[group].matches.append(match)
            continue
        counted = _sighted(row, document, group, match)
        if counted.count() >= document.times:
            joins[group] = _Joins(_open(row, document, group, match, list(counted)))
            opened += 1
    for joined in joins.values():
        if joined.matches:
            _join(joined)
    if seen:
        # Of every group: one that is never seen again must not leave its sightings behind.
        since = max(match.entry.at for match in seen) - timedelta(seconds=document.within_s)
        RuleSighting.objects.filter(rule=row, at__lt=since).delete()
    return opened


def _live(row: IncidentRuleRow, group: str) -> Incident | None:
    rows = Incident.objects.of(row.tenant).select_for_update(of=("self",))
    return rows.filter(rule_name=row.name, group_key=group, state__in=LIVE).first()


def _sighted(
    row: IncidentRuleRow, document: IncidentRule, group: str, match: _Match
) -> "QuerySet[RuleSighting]":
    """Note a sighting, and return those of its group that count with it."""
    since = match.entry.at - timedelta(seconds=document.within_s)
    RuleSighting.objects.create(
        rule=row, group_key=group, leaf=match.leaf, entry_id=match.entry.pk, at=match.entry.at
    )
    return RuleSighting.objects.filter(rule=row, group_key=group, at__gte=since).order_by("leaf")


def _open(
    row: IncidentRuleRow, document: IncidentRule, group: str, match: _Match, counted: Sequence[RuleSighting]
) -> Incident:
    title = f"{document.title}: {group}" if group else document.title
    incident = Incident.objects.create(
        tenant=row.tenant,
        title=title[:LONGEST_TITLE],
        severity=document.severity,
        opened_by=actors.SYSTEM,
        opened_at=clock.now(),
        rule=row,
        rule_name=row.name,
        group_key=group,
        crossing=match.leaf,
        sightings=len(counted),
    )
    book = IncidentJournal(incident=incident, actor=actors.SYSTEM, at=incident.opened_at)
    book.add(
        events.IncidentOpened(
            incident_id=str(incident.pk),
            title=incident.title,
            severity=document.severity,
            rule=row.name,
            rule_version=row.version,
            group=group,
            crossing=match.leaf,
            sightings=len(counted),
        )
    )
    earlier = {item.entry_id: item.leaf for item in counted if item.leaf != match.leaf}
    entries = LedgerEntry.objects.filter(pk__in=list(earlier))
    _link(book, [*sorted(_seen(entries, earlier), key=lambda one: one.leaf), match])
    ports.announce_incident(incident=incident, news="OPENED", at=book.at)
    book.write()
    RuleSighting.objects.filter(rule=row, group_key=group).delete()
    warn = partial(_log.warning, "the rule %s opened incident %s: %s", row, incident.pk, incident.title)
    transaction.on_commit(warn)
    return incident


def _join(joined: _Joins) -> None:
    book = journal.begin(incident=joined.incident, actor=actors.SYSTEM)
    Incident.objects.filter(pk=joined.incident.pk).update(sightings=F("sightings") + len(joined.matches))
    book.add(
        events.IncidentJoined(
            incident_id=str(joined.incident.pk),
            sightings=len(joined.matches),
            until_leaf=joined.matches[-1].leaf,
        )
    )
    _link(book, joined.matches)
    book.write()


def _link(book: IncidentJournal, matches: Sequence[_Match]) -> None:
    """Link what the entries are about, within the bound."""
    held = book.incident.links.filter(removed_at=None).count()
    # What a person took away stays away.
    removed = set(book.incident.links.exclude(removed_at=None).values_list("kind", "ref"))
    for found in _things(book.incident.tenant, matches):
        if held >= MOST_LINKED:
            return
        if (found.kind.value, found.ref) not in removed:
            held += book.link(found)


def _things(tenant: str, matches: Sequence[_Match]) -> list[Linkable]:
    agents = _names(Agent, "agent_id", tenant, (match.seen.agent_id for match in matches))
    targets = _names(Target, "name", tenant, (_target(match) for match in matches))
    found: dict[Linkable, None] = {}
    for match in matches:
        dfid = UUID(match.seen.dfid) if match.seen.dfid else None
        if dfid is not None:
            found[Linkable(LinkKind.FLOW, str(dfid), dfid)] = None
            if isinstance(escalation := match.seen.payload.get("escalation_id"), str):
                found[Linkable(LinkKind.ESCALATION, escalation, dfid)] = None
        if match.seen.agent_id in agents:
            found[Linkable(LinkKind.AGENT, match.seen.agent_id)] = None
        if _target(match) in targets:
            found[Linkable(LinkKind.TARGET, _target(match))] = None
    return list(found)


def _target(match: _Match) -> str:
    named = match.seen.payload.get("target")
    return named if isinstance(named, str) else ""


def _names(model: Any, column: str, tenant: str, given: Iterable[str]) -> set[str]:
    wanted = {name for name in given if name}
    if not wanted:
        return set()
    rows = model.objects.of(tenant).filter(**{f"{column}__in": list(wanted)})
    return set(rows.values_list(column, flat=True))


def _dfid(stream: str) -> UUID | None:
    try:
        return UUID(stream) if len(stream) == len("00000000-0000-0000-0000-000000000000") else None
    except ValueError:
        return None
