"""Reads of escalations for the queue, the decision page and the frame of every page."""

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet

from audit import canonical, queries
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from escalations import contracts, evidence_contracts
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation, Evidence, Question
from escalations.models.question import IS_ANSWERED
from runtime.contracts import states
from runtime.core import mismatches, paging
from runtime.flows.models import Intent
from runtime.state.models import Fact

log = logging.getLogger(__name__)
PAGE = 100
OPERATIONAL_SHOWN = 200
MAX_KEPT = 200
_REVISIONS = frozenset({Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED})


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """What the queue shows; empty fields ask nothing. `text` looks in effect, agent, reason and kind."""

    impact: str = ""
    family: str = ""
    agent: str = ""
    kind: str = ""
    reason: str = ""
    text: str = ""
    mine: int | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a decision in the queue's order."""

    deadline_at: datetime
    impact_rank: int
    escalation_id: UUID


@dataclass(frozen=True, slots=True)
class Counts:
    """Open escalations, and when the oldest was opened."""

    total: int
    high: int
    low: int
    operational: int
    silent: int
    oldest_at: datetime | None


def count_open(*, tenant: str) -> Counts:
    """Open escalations by weight, in one query."""
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN)
    found = rows.aggregate(
        total=Count("escalation_id"),
        low=Count("escalation_id", filter=Q(impact=states.Impact.LOW_IMPACT)),
        operational=Count("escalation_id", filter=Q(family=contracts.Family.OPERATIONAL)),
        silent=Count("escalation_id", filter=Q(family=contracts.Family.AGENT)),
        oldest_at=Min("opened_at"),
    )
    return Counts(high=found["total"] - found["low"], **found)


def list_operational(*, tenant: str, wanted: QueueFilter) -> Sequence[Escalation]:
    """Open escalations that have no deadline, silent agents among them; heaviest and oldest first."""
    rows = _open(tenant=tenant, wanted=wanted).exclude(family=contracts.Family.DECISION)
    return list(rows.order_by("-impact_rank", "escalation_id")[:OPERATIONAL_SHOWN])


def list_decisions(
    *, tenant: str, wanted: QueueFilter, after: Cursor | None, size: int = PAGE
) -> paging.Page[Escalation]:
    """Open escalations with a deadline: the nearest first, then the heavier."""
    rows = _open(tenant=tenant, wanted=wanted).filter(family=contracts.Family.DECISION)
    if after:
        rows = rows.filter(
            Q(deadline_at__gt=after.deadline_at)
            | Q(deadline_at=after.deadline_at, impact_rank__lt=after.impact_rank)
            | Q(
                deadline_at=after.deadline_at,
                impact_rank=after.impact_rank,
                escalation_id__gt=after.escalation_id,
            )
        )
    ordered = rows.order_by("deadline_at", "-impact_rank", "escalation_id")
    return paging.cut(list(ordered[: size + 1]), size)


def list_by_id(*, tenant: str, ids: Sequence[UUID]) -> Sequence[Escalation]:
    """Those of the ids that are no longer open, with their decision: the page greys them in place."""
    rows = Escalation.objects.of(tenant).exclude(state=contracts.State.OPEN)
    return list(
        rows.select_related("claimed_by", "decision__approver").filter(escalation_id__in=ids[:MAX_KEPT])
    )


def list_closed(*, tenant: str, wanted: QueueFilter, size: int = PAGE) -> Sequence[Escalation]:
    """The newest that were closed."""
    rows = _matching(Escalation.objects.of(tenant), replace(wanted, mine=None))
    rows = rows.exclude(state=contracts.State.OPEN).select_related("claimed_by", "decision__approver")
    return list(rows.order_by("-escalation_id")[:size])


def get(*, tenant: str, escalation_id: UUID) -> Escalation | None:
    """One escalation with everything its page names, or None."""
    rows = Escalation.objects.of(tenant).select_related(
        "flow__agent__active_manifest", "proposal__verdict", "intent", "claimed_by", "decision__approver"
    )
    return rows.filter(escalation_id=escalation_id).first()


def list_questions(*, escalation: Escalation) -> Sequence[Question]:
    """The questions to the agent, in the order they were asked."""
    return list(Question.objects.filter(escalation=escalation).select_related("asked_by").order_by("number"))


def count_unanswered(*, tenant: str, agent_id: str) -> int:
    """How often an agent was asked, if it has never answered; 0 where it has, or was not asked."""
    rows = Question.objects.filter(escalation__tenant=tenant, escalation__agent_id=agent_id)
    counted = rows.aggregate(
        asked=Count("pk", filter=Q(closed_at__isnull=False)), answered=Count("pk", filter=IS_ANSWERED)
    )
    return 0 if counted["answered"] else int(counted["asked"])


def get_evidence(*, tenant: str, escalations: Sequence[Escalation]) -> dict[UUID, AnyEvidence]:
    """The current evidence of each escalation; without that which cannot be read, or was not recorded so.

    The ledger says which revision is in force, and is read first: a revision that comes meanwhile leaves the
    one before it where it was.
    """
    hashes: dict[str, tuple[int, str]] = {}
    for _, payload in queries.list_payloads_of_streams(
        tenant=tenant, streams={str(row.flow_id) for row in escalations}, kinds=_REVISIONS
    ):
        hashes[payload["escalation_id"]] = (payload["revision"], payload["evidence_hash"])
    rows = Evidence.objects.filter(
        escalation__in=[row.pk for row in escalations], revision__in={number for number, _ in hashes.values()}
    )
    found: dict[UUID, AnyEvidence] = {}
    for row in rows:
        revision, digest = hashes.get(str(row.escalation_id), (0, ""))
        if (
            row.revision != revision
            or mismatches.compare("evidence.body", str(row.pk), digest, row.body) is not None
        ):
            continue
        try:
            found[row.escalation_id] = evidence_contracts.read_evidence(bytes(row.body))
        except ValueError:
            log.exception("the evidence of escalation %s could not be read", row.escalation_id)
    return found


@dataclass(frozen=True, slots=True)
class History:
    """How this agent's escalations ended: counts by resolution, and the newest few."""

    by_resolution: dict[str, int]
    newest: Sequence[Escalation]


def get_history(*, tenant: str, agent_id: str, besides: UUID) -> History:
    """The agent's last two hundred closed escalations."""
    rows = Escalation.objects.of(tenant).filter(agent_id=agent_id).exclude(state=contracts.State.OPEN)
    newest = list(rows.exclude(escalation_id=besides).order_by("-opened_at")[:200])
    counted: dict[str, int] = {}
    for row in newest:
        counted[row.resolution or row.state] = counted.get(row.resolution or row.state, 0) + 1
    return History(by_resolution=counted, newest=newest[:6])


def get_intent(*, escalation: Escalation, proposal_id: str | None) -> Intent | None:
    """What ran after the decision: the intent of the person's own proposal, else the one that was stuck."""
    if proposal_id is None:
        return escalation.intent
    rows = Intent.objects.of(escalation.tenant).select_related("outcome")
    return rows.filter(proposal_id=proposal_id).first()


def live_facts(*, tenant: str, paths: Sequence[str]) -> dict[str, Any]:
    """The facts as they are now, path to value; the page compares them with the frozen ones.

    One whose bytes cannot be read is left out, as if nobody knew it.
    """
    rows = Fact.objects.of(tenant).filter(path__in=paths).values_list("path", "value")
    found: dict[str, Any] = {}
    for path, value in rows:
        with contextlib.suppress(*UNREADABLE):
            found[path] = canonical.decode(bytes(value))
    return found


def _open(*, tenant: str, wanted: QueueFilter) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).select_related("claimed_by")
    return _matching(rows, wanted)


def _matching(rows: QuerySet[Escalation], wanted: QueueFilter) -> QuerySet[Escalation]:
    if wanted.impact == states.Impact.HIGH_IMPACT:
        rows = rows.exclude(impact=states.Impact.LOW_IMPACT)
    elif wanted.impact:
        rows = rows.filter(impact=wanted.impact)
    exact = {
        "family": wanted.family,
        "agent_id": wanted.agent,
        "policy_kind": wanted.kind,
        "reason": wanted.reason,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.mine is not None:
        rows = rows.filter(claimed_by_id=wanted.mine)
    if wanted.text:
        rows = rows.filter(
            Q(effect__icontains=wanted.text)
            | Q(agent_id__icontains=wanted.text)
            | Q(reason__icontains=wanted.text)
            | Q(policy_kind__icontains=wanted.text)
            | Q(escalation_id__icontains=wanted.text)
        )
    return rows
