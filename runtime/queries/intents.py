"""Reads of workers and sweepers: which intents are due, which are orphaned, and what holds a call back."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from runtime.contracts.states import (
    ENDED,
    AgentStatus,
    AttemptState,
    Direction,
    FlowState,
    IntentState,
    Purpose,
)
from runtime.models import Agent, Attempt, Flow, Intent, StepReceipt, Stop

HOLDING_STATUSES = (AgentStatus.SUSPENDED.value, AgentStatus.LOCKED.value)
SYSTEM_STOPPED = "SYSTEM_STOPPED"
AGENT_STOPPED = "AGENT_STOPPED"


@dataclass(frozen=True, kw_only=True)
class Due:
    """An intent that may be attempted now."""

    intent_id: UUID
    target: str
    next_at: datetime


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the registry says about an intent's agent at this moment.

    `held_by` keeps a forward call back; only `stopped_by` keeps back what undoes one, or asks about one.
    """

    status: AgentStatus
    held_by: str | None
    stopped_by: str | None = None


def get_standing(*, agent_pk: int) -> Standing:
    """Whether a stop or the agent's status keeps its calls back, and why. One query, never cached."""
    in_force = Stop.objects.filter(tenant=OuterRef("tenant"), lifted_at__isnull=True)
    row = Agent.objects.annotate(all_stopped=Exists(in_force)).get(pk=agent_pk)
    stopped_by = None
    if row.all_stopped:
        stopped_by = SYSTEM_STOPPED
    elif row.stopped_at is not None:
        stopped_by = AGENT_STOPPED
    held_by = stopped_by
    if held_by is None and row.status in HOLDING_STATUSES:
        held_by = f"AGENT_{row.status}"
    return Standing(status=AgentStatus(row.status), held_by=held_by, stopped_by=stopped_by)


def is_in_doubt(*, intent: Intent) -> bool:
    """Whether an earlier call of the step at hand ended without anybody knowing what it did."""
    return _unsettled(intent).exists()


def get_doubtful_since(*, intent: Intent) -> datetime | None:
    """When the last call that is in doubt was begun; None where none is."""
    return _unsettled(intent).order_by("-number").values_list("started_at", flat=True).first()


def has_taken_effect(*, intent: Intent) -> bool:
    """Whether an effect of it is known: a call of it succeeded, or a person has found a step done."""
    succeeded = Attempt.objects.filter(intent=intent, state=AttemptState.SUCCEEDED)
    return succeeded.exists() or StepReceipt.objects.filter(intent=intent).exists()


def list_due(
    *, at: datetime, limit: int, without: Collection[UUID] = (), without_targets: Collection[str] = ()
) -> list[Due]:
    """Intents whose time has come, oldest first, chosen without a lock.

    What a stop or a status holds back is left out until its window ends, so that it costs nothing meanwhile.
    A compensation and a probe have no window, and no status holds them.
    """
    in_force = Stop.objects.filter(tenant=OuterRef("tenant"), lifted_at__isnull=True)
    has_window = Q(direction=Direction.FORWARD, purpose=Purpose.CALL)
    held = (
        Q(Exists(in_force))
        | Q(flow__agent__stopped_at__isnull=False)
        | (has_window & Q(flow__agent__status__in=HOLDING_STATUSES))
    )
    rows = (
        Intent.objects.filter(state=IntentState.PENDING, next_at__lte=at)
        .filter(~held | (has_window & Q(valid_until__lte=at)))
        .exclude(pk__in=list(without))
        .exclude(target__in=list(without_targets))
        .order_by("next_at")
        .values_list("intent_id", "target", "next_at")[:limit]
    )
    return [Due(intent_id=pk, target=target, next_at=next_at) for pk, target, next_at in rows]


def get_next_due_at(*, after: datetime) -> datetime | None:
    """When the next intent becomes due that was not due at `after`; None where there is none."""
    rows = Intent.objects.filter(state=IntentState.PENDING, next_at__gt=after).order_by("next_at")
    return rows.values_list("next_at", flat=True).first()


def list_orphans(*, at: datetime | None, limit: int) -> list[UUID]:
    """Claimed intents whose lease ended before `at`; all claimed ones where `at` is None."""
    rows = Intent.objects.filter(state=IntentState.CLAIMED)
    if at is not None:
        rows = rows.filter(lease_until__lt=at)
    return list(rows.order_by("lease_until").values_list("intent_id", flat=True)[:limit])


def list_idle_flows(*, at: datetime, idle_s: int, limit: int) -> list[UUID]:
    """Open flows in which nothing has happened for `idle_s` seconds: the agent has gone away."""
    idle_since = at - timedelta(seconds=idle_s)
    rows = (
        Flow.objects.filter(state__in=(FlowState.CREATED, FlowState.ACTIVE), updated_at__lt=idle_since)
        .exclude(Exists(_stirring(OuterRef("pk"), idle_since)))
        .order_by("updated_at")
    )
    return list(rows.values_list("dfid", flat=True)[:limit])


def has_stirring_children(*, flow: Flow, since: datetime) -> bool:
    """Whether a flow has children that are open, or that moved after `since`: then it is not idle itself."""
    return _stirring(flow.pk, since).exists()


def _stirring(parent: UUID | OuterRef, since: datetime) -> QuerySet[Flow]:
    return Flow.objects.filter(parent=parent).filter(~Q(state__in=ENDED) | Q(updated_at__gte=since))


def _unsettled(intent: Intent) -> QuerySet[Attempt]:
    unknown = Attempt.objects.filter(intent=intent, state=AttemptState.UNKNOWN, purpose=Purpose.CALL)
    return unknown.filter(number__gt=intent.settled)
