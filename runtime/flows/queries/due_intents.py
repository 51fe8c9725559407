"""Reads of workers and sweepers: which intents are due, which are orphaned, and what holds a call back."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from audit import statements
from runtime.contracts.reasons import Reason
from runtime.contracts.states import (
    ENDED,
    AgentStatus,
    AttemptState,
    AutonomyLevel,
    Direction,
    Effect,
    FlowState,
    IntentState,
    Purpose,
)
from runtime.epochs.queries import current_epoch
from runtime.flows.models import Attempt, Flow, Intent, StepReceipt
from runtime.registry.models import Agent, Stop

HOLDING_STATUSES = (AgentStatus.SUSPENDED.value, AgentStatus.LOCKED.value)
_HAS_WINDOW = Q(direction=Direction.FORWARD, purpose=Purpose.CALL)
SYSTEM_STOPPED = "SYSTEM_STOPPED"
AGENT_STOPPED = "AGENT_STOPPED"


@dataclass(frozen=True, kw_only=True)
class DueIntent:
    """An intent that may be attempted now."""

    intent_id: UUID
    target: str
    next_at: datetime


@dataclass(frozen=True, kw_only=True)
class AgentStanding:
    """The registry's data on an intent's agent at this moment.

    `held_by` keeps a forward call back; only `stopped_by` keeps back what undoes one, or asks about one.
    """

    status: AgentStatus
    held_by: str | None
    stopped_by: str | None = None


def get_standing(*, agent_pk: int) -> AgentStanding:
    """Whether a stop, the agent's status or level keeps its calls back, and why. One query, never cached."""
    found = _STANDING.first(agent=agent_pk)
    if found is None:
        raise Agent.DoesNotExist
    return standing_of(*found)


def standing_of(
    status: str, autonomy: str, stopped_at: datetime | None, is_all_stopped: bool, is_recovering: bool
) -> AgentStanding:
    """The same from what was read of an agent, and of what holds back all of its tenant."""
    stopped_by = None
    if is_recovering:
        stopped_by = current_epoch.RECOVERY
    elif is_all_stopped:
        stopped_by = SYSTEM_STOPPED
    elif stopped_at is not None:
        stopped_by = AGENT_STOPPED
    held_by = stopped_by
    if held_by is None and status in HOLDING_STATUSES:
        held_by = f"AGENT_{status}"
    if held_by is None and autonomy == AutonomyLevel.READ_ONLY:
        held_by = Reason.AGENT_READ_ONLY
    return AgentStanding(status=AgentStatus(status), held_by=held_by, stopped_by=stopped_by)


def _standing(*, agent: int) -> QuerySet[Agent, tuple[str, str, datetime | None, bool, bool]]:
    rows = Agent.objects.filter(pk=agent)
    rows = rows.annotate(is_all_stopped=all_stopped(), is_recovering=current_epoch.recovering())
    return rows.values_list("status", "autonomy", "stopped_at", "is_all_stopped", "is_recovering")


_STANDING: Final = statements.Read(_standing)


def all_stopped() -> Exists:
    """For a query over rows of a tenant: whether everything of it is stopped."""
    return Exists(Stop.objects.filter(tenant=OuterRef("tenant"), lifted_at__isnull=True))


def get_stop(*, tenant: str) -> str | None:
    """What holds back every call of the tenant, also one that belongs to no intent; never cached."""
    if current_epoch.is_recovering():
        return current_epoch.RECOVERY
    is_stopped = Stop.objects.filter(tenant=tenant, lifted_at__isnull=True).exists()
    return SYSTEM_STOPPED if is_stopped else None


def has_taken_effect(*, intent: Intent) -> bool:
    """Whether an effect of it is known: a call of it succeeded, or was found out to have happened."""
    known = Q(state=AttemptState.SUCCEEDED) | Q(effect=Effect.HAPPENED)
    succeeded = Attempt.objects.filter(known, intent=intent)
    return succeeded.exists() or StepReceipt.objects.filter(intent=intent).exists()


def list_due(
    *,
    at: datetime,
    limit: int,
    without: Collection[UUID] = (),
    without_targets: Collection[str] = (),
    target: str | None = None,
) -> list[DueIntent]:
    """Intents whose time has come, oldest first, chosen without a lock; with `target` those that call it.

    What a stop or a status holds back is left out until its window ends, so that it costs nothing until then.
    A compensation and a probe have no window, and no status holds them.
    """
    rows = (
        Intent.objects.filter(state=IntentState.PENDING, next_at__lte=at)
        .filter(~_held() | (_HAS_WINDOW & Q(valid_until__lte=at)))
        .exclude(pk__in=list(without))
        .exclude(target__in=list(without_targets))
        .filter(**({} if target is None else {"target": target}))
        .exclude(current_epoch.recovering())
        .order_by("next_at")
        .values_list("intent_id", "target", "next_at")[:limit]
    )
    return [DueIntent(intent_id=pk, target=target, next_at=next_at) for pk, target, next_at in rows]


def list_pending(*, intent_ids: Collection[UUID], at: datetime) -> list[DueIntent]:
    """Which of these wait for a call whose time has come, oldest first; one question, without a lock."""
    rows = Intent.objects.filter(pk__in=list(intent_ids), state=IntentState.PENDING, next_at__lte=at)
    found = rows.order_by("next_at").values_list("intent_id", "target", "next_at")
    return [DueIntent(intent_id=pk, target=target, next_at=next_at) for pk, target, next_at in found]


def list_due_at(*, tenant: str, target: str, at: datetime, limit: int) -> list[Intent]:
    """Intents that may call this target now, the longest waiting first: due, not held, in their window."""
    rows = Intent.objects.of(tenant).filter(state=IntentState.PENDING, target=target, next_at__lte=at)
    may = rows.exclude(_held()).exclude(_HAS_WINDOW & Q(valid_until__lte=at))
    return list(may.order_by("next_at")[:limit])


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


def list_claimed(*, limit: int) -> list[tuple[UUID, str]]:
    """Claimed intents with the name on their lease, the oldest lease first."""
    rows = Intent.objects.filter(state=IntentState.CLAIMED).order_by("lease_until")
    return list(rows.values_list("intent_id", "lease_owner")[:limit])


def list_under_way(*, tenant: str, agent_pk: int | None = None, limit: int) -> list[UUID]:
    """Intents whose call has begun and not ended: the target has the request, or the first bytes of it."""
    begun = Attempt.objects.filter(state=AttemptState.STARTED, sent_at__isnull=False)
    begun = begun.filter(intent__tenant=tenant)
    if agent_pk is not None:
        begun = begun.filter(intent__flow__agent=agent_pk)
    return list(begun.order_by("sent_at").values_list("intent_id", flat=True)[:limit])


def list_idle_flows(*, at: datetime, idle_s: int, limit: int) -> list[UUID]:
    """Open flows in which nothing has happened for `idle_s` seconds: the agent has gone away."""
    idle_since = at - timedelta(seconds=idle_s)
    rows = (
        Flow.objects.filter(state__in=(FlowState.CREATED, FlowState.ACTIVE), updated_at__lt=idle_since)
        .exclude(Exists(_stirring(OuterRef("pk"), idle_since)))
        .order_by("updated_at")
    )
    return list(rows.values_list("dfid", flat=True)[:limit])


def _held() -> Q:
    """What a stop or the agent's status keeps back."""
    in_force = Stop.objects.filter(tenant=OuterRef("tenant"), lifted_at__isnull=True)
    return (
        Q(Exists(in_force))
        | Q(flow__agent__stopped_at__isnull=False)
        | (_HAS_WINDOW & Q(flow__agent__status__in=HOLDING_STATUSES))
        | (_HAS_WINDOW & Q(flow__agent__autonomy=AutonomyLevel.READ_ONLY))
    )


def has_stirring_children(*, flow: Flow, since: datetime) -> bool:
    """Whether a flow has children that are open, or that moved after `since`: then it is not idle itself."""
    return _stirring(flow.pk, since).exists()


def _stirring(parent: UUID | OuterRef, since: datetime) -> QuerySet[Flow]:
    return Flow.objects.filter(parent=parent).filter(~Q(state__in=ENDED) | Q(updated_at__gte=since))
