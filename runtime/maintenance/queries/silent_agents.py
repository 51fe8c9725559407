"""Whom the silence watchdog watches, and since when it has heard nothing. Reads only."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, Subquery

from audit import canonical
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, FlowState
from runtime.flows.models import Flow
from runtime.kernel import silence
from runtime.kernel.silence import Silence
from runtime.maintenance.models import WatchRound
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds

# Suspended and retired agents are not expected to work; a stop is asked of its own column.
WATCHED = (AgentStatus.ACTIVE.value, AgentStatus.PASSIVE.value, AgentStatus.LOCKED.value)


def list_agents(*, after: int, limit: int) -> Sequence[tuple[Agent, UUID | None]]:
    """A page of agents in the order of their keys, with the open flow that asks for a person.

    Unmonitored agents are left out, unless such a flow is still open.
    """
    asking = Flow.objects.filter(
        agent=OuterRef("pk"), state=FlowState.ESCALATED, reason=Reason.AGENT_SILENT.value
    )
    watched = Q(active_manifest__isnull=False, stopped_at__isnull=True, status__in=WATCHED)
    rows = (
        Agent.objects.filter(pk__gt=after)
        .filter(watched | Exists(asking))
        .select_related("active_manifest")
        .annotate(asking=Subquery(asking.values("dfid")[:1]))
    )
    return [(row, row.asking) for row in rows.order_by("pk")[:limit]]


def is_watched(agent: Agent) -> bool:
    """Whether a person is to be called when this agent falls silent."""
    manifest = granted_kinds.stored_manifest_of(agent)
    asked = manifest is not None and manifest.silent_after_s is not None
    return asked and agent.stopped_at is None and agent.status in WATCHED


def get_silence(agent: Agent, *, listening_since: datetime, at: datetime) -> Silence | None:
    """The silence that is past its bound at `at`; None where the agent was heard, or is not watched.

    `listening_since` is since when the runtime listened without a gap: earlier silence does not count.
    """
    manifest = granted_kinds.stored_manifest_of(agent)
    if manifest is None or manifest.silent_after_s is None or not is_watched(agent):
        return None
    # The latest of everything from which a silence can count: the last call, or what a person did.
    activated_at = None if agent.active_manifest is None else agent.active_manifest.activated_at
    signs = (listening_since, agent.created_at, agent.last_seen_at, agent.watched_from, activated_at)
    since = max(moment for moment in signs if moment is not None)
    since_ms, now_ms, hours = timestamps.to_ms(since), timestamps.to_ms(at), manifest.hours
    if not silence.is_past(since_ms=since_ms, now_ms=now_ms, hours=hours, bound_s=manifest.silent_after_s):
        return None
    return Silence(
        since=since,
        last_seen_at=agent.last_seen_at,
        at=at,
        awake_s=silence.awake_ms(since_ms=since_ms, until_ms=now_ms, hours=hours) // 1000,
        silent_after_s=manifest.silent_after_s,
        hours=hours,
    )


def is_over(flow: Flow, agent: Agent) -> bool:
    """Whether this silence no longer needs attention: the agent called, or is no longer monitored.

    Told by another stored time, not by a later one: a clock may have been set back.
    """
    asked = canonical.decode(bytes(flow.trigger))
    return not is_watched(agent) or bool(asked["last_seen_at"] != iso(agent.last_seen_at))


def iso(moment: datetime | None) -> str | None:
    """A moment as triggers and evidence have it."""
    return None if moment is None else timestamps.iso(moment)


def last_round_at() -> datetime | None:
    """When the sweeper last wrote that it went round; None before its first round."""
    return WatchRound.objects.values_list("last_at", flat=True).first()
