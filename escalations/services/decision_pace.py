"""How fast, and how uniformly, a person decides: what the rules of `pace` ask of the rows."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import actors, events, ledger, queries, statements
from audit.events import Kind
from escalations import noise, pace
from escalations.models import Decision, Escalation
from escalations.pace import CheckQuestion
from escalations.services.decision_request import DecisionRequest
from runtime.contracts.states import OutcomeStatus
from runtime.core import clock, transactions
from runtime.flows.models import Intent
from runtime.proposals.queries import gate_facts
from runtime.registry.models import Agent

LAST_LOOKED_AT = 100


@dataclass(frozen=True, kw_only=True)
class Pause:
    """What the pause shows: how the overrides ended, by words, and the newest one that ended badly."""

    count: int
    ended: Sequence[tuple[str, int]]
    worst: Decision | None


def question_for(
    *, escalation: Escalation, agent: Agent, user_id: int, request: DecisionRequest, shown_ms: int
) -> CheckQuestion | None:
    """Return the question that this decision costs; None for none."""
    mine = Decision.objects.filter(escalation__tenant=escalation.tenant, approver=user_id).exclude(
        justification=""
    )
    reasons = mine.order_by("-decided_at").values_list("justification", flat=True)
    measured = Decision.objects.filter(
        escalation__tenant=escalation.tenant,
        escalation__policy_kind=escalation.policy_kind,
        shown_ms__isnull=False,
    )
    times = measured.order_by("-decided_at").values_list("shown_ms", flat=True)
    kind = gate_facts.get_rules(agent=agent, kind_name=escalation.policy_kind).kind
    return pace.question_for(
        request.action,
        request.justification,
        last_reasons=list(reasons[: pace.LAST_REASONS]),
        shown_ms=shown_ms,
        usual_ms=pace.usual_reading_ms(
            None if kind is None else kind.reading_s,
            [ms for ms in times[: pace.LAST_MEASURED] if ms is not None],
        ),
    )


def is_pause_due(*, tenant: str, user_id: int) -> bool:
    """Return whether a person has made ten overrides in a row since the last pause."""
    return pace.is_pause_due([row.action for row in _since_pause(tenant, user_id)])


def get_pause(*, tenant: str, user_id: int) -> Pause | None:
    """Return what the pause shows; None where none is due."""
    rows = _since_pause(tenant, user_id)
    if not pace.is_pause_due([row.action for row in rows]):
        return None
    outcomes = outcomes_of([row.escalation.flow_id for row in rows])
    ended = Counter(_WORDS.get(outcomes.get(row.escalation.flow_id), _NOT_YET) for row in rows)
    earlier = Decision.objects.filter(escalation__tenant=tenant, approver=user_id).select_related(
        "escalation"
    )
    newest = list(earlier.order_by("-decided_at")[:LAST_LOOKED_AT])
    how = outcomes_of([row.escalation.flow_id for row in newest])
    worst = next((row for row in newest if how.get(row.escalation.flow_id) in noise.ENDED_BADLY), None)
    return Pause(count=len(rows), ended=ended.most_common(), worst=worst)


@transactions.retried
def end_pause(*, tenant: str, user_id: int) -> None:
    """Record that the person has looked at how the overrides ended; the count starts anew."""
    me, paused = actors.user(user_id), events.UserPaused(overrides=pace.PAUSE_AFTER)
    ledger.append_to(tenant=tenant, stream=me, actor=me, at=clock.now(), events=[paused])


_NOT_YET = "not executed yet"
_WORDS: dict[Any, str] = {
    OutcomeStatus.SUCCEEDED.value: "executed",
    OutcomeStatus.FAILED.value: "failed",
    OutcomeStatus.EXPIRED.value: "expired",
    OutcomeStatus.CANCELLED.value: "cancelled",
    OutcomeStatus.COMPENSATED.value: "undone",
}


def _since_pause(tenant: str, user_id: int) -> list[Decision]:
    """The newest decisions of a person since the last pause, at most as many as a pause takes."""
    paused = queries.list_dated(
        tenant=tenant, stream=actors.user(user_id), kinds=frozenset({Kind.USER_PAUSED})
    )
    since = max((at for _, at, _ in paused), default=None)
    if since is None:
        return _NEWEST.rows(pace.PAUSE_AFTER, tenant=tenant, user_id=user_id)
    return _NEWEST.rows(pace.PAUSE_AFTER, tenant=tenant, user_id=user_id, since=since)


def _newest(most: int, *, tenant: str, user_id: int, since: datetime | None = None) -> QuerySet[Decision]:
    rows = Decision.objects.filter(escalation__tenant=tenant, approver=user_id).select_related("escalation")
    if since is not None:
        rows = rows.filter(decided_at__gt=since)
    return rows.order_by("-decided_at")[:most]


_NEWEST: Final = statements.Read(_newest)


def outcomes_of(flows: Collection[UUID]) -> dict[UUID, str]:
    """How the newest intent of each flow ended."""
    rows = Intent.objects.filter(flow__in=flows, outcome__isnull=False).order_by("created_at")
    return dict(rows.values_list("flow_id", "outcome__status"))
