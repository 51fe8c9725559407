"""The kill switches: one for everything of a tenant, one per agent. No call begins after either has returned.

What has begun by then is named: its target has the request, and its outcome is recorded as ever.
"""

from uuid import UUID

from django.db import transaction

from audit import actors, events, ledger
from runtime.contracts.problem import Problem
from runtime.contracts.states import IntentState
from runtime.core import clock, ports, transactions
from runtime.flows.models import Intent
from runtime.flows.queries import due_intents
from runtime.registry.models import Agent, Stop
from runtime.registry.services import agents
from runtime.stops.services import call_gate

NAMED_AT_ONCE = 100  # calls under way in the entry of a stop
RUNG_AT_ONCE = 1000  # more than that is left to the poll: a bell is only a hint


@transactions.retried
def stop_all(*, tenant: str, actor: str, reason: str) -> Stop:
    """Stop every call of the tenant. Stopping twice keeps the first stop."""
    stop = _lock_active(tenant)
    if stop is not None:
        return stop
    call_gate.close(tenant=tenant)
    at = clock.now()
    stop = Stop.objects.create(tenant=tenant, reason=reason[:500], stopped_by=actor, stopped_at=at)
    stopped = events.SystemStopped(reason=reason[:500], under_way=_under_way(tenant=tenant))
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[stopped])
    return stop


@transactions.retried
def resume_all(*, tenant: str, actor: str, reason: str = "") -> bool:
    """End the tenant's stop and queue what is due; False where nothing was stopped."""
    stop = _lock_active(tenant)
    if stop is None:
        return False
    stop.lifted_at, stop.lifted_by = clock.now(), actor
    stop.save(update_fields=["lifted_at", "lifted_by"])
    resumed = events.SystemResumed(reason=reason[:500])
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=stop.lifted_at, events=[resumed])
    _ring_due(tenant=tenant, agent=None)
    return True


@transactions.retried
def stop_agent(*, tenant: str, agent_id: str, actor: str, reason: str) -> Agent | Problem:
    """Stop every call of one agent's flows. Stopping twice keeps the first stop."""
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if not isinstance(agent, Problem):
        stop_held(agent=agent, actor=actor, reason=reason)
    return agent


def stop_held(*, agent: Agent, actor: str, reason: str) -> None:
    """Stop an agent that the caller has locked, in the caller's transaction."""
    if agent.stopped_at is not None:
        return
    call_gate.close(tenant=agent.tenant)
    agent.stopped_at, agent.stopped_by, agent.stop_reason = clock.now(), actor, reason[:500]
    agent.save(update_fields=["stopped_at", "stopped_by", "stop_reason"])
    under_way = _under_way(tenant=agent.tenant, agent_pk=agent.pk)
    stopped = events.AgentStopped(agent_id=agent.agent_id, reason=reason[:500], under_way=under_way)
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=agent.stopped_at, events=[stopped])


@transactions.retried
def resume_agent(*, tenant: str, agent_id: str, actor: str, reason: str = "") -> Agent | Problem:
    """End the stop of one agent and queue what is due of it."""
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem) or agent.stopped_at is None:
        return agent
    # What was silent while it was stopped is not missed at once.
    agent.stopped_at, agent.stopped_by, agent.stop_reason = None, "", ""
    agent.watched_from = clock.now()
    agent.save(update_fields=["stopped_at", "stopped_by", "stop_reason", "watched_from"])
    resumed = events.AgentResumed(agent_id=agent_id, reason=reason[:500])
    stream = actors.agent(agent_id)
    ledger.append_to(tenant=tenant, stream=stream, actor=actor, at=agent.watched_from, events=[resumed])
    _ring_due(tenant=tenant, agent=agent)
    return agent


def _under_way(*, tenant: str, agent_pk: int | None = None) -> tuple[str, ...]:
    begun = due_intents.list_under_way(tenant=tenant, agent_pk=agent_pk, limit=NAMED_AT_ONCE)
    return tuple(str(intent_id) for intent_id in begun)


def _lock_active(tenant: str) -> Stop | None:
    return Stop.objects.select_for_update().filter(tenant=tenant, lifted_at__isnull=True).first()


def _ring_due(*, tenant: str, agent: Agent | None) -> None:
    due = Intent.objects.of(tenant).filter(state=IntentState.PENDING, next_at__lte=clock.now())
    if agent is not None:
        due = due.filter(flow__agent=agent)
    intent_ids: list[UUID] = list(due.order_by("next_at").values_list("intent_id", flat=True)[:RUNG_AT_ONCE])
    if intent_ids:
        transaction.on_commit(lambda: ports.ring(intent_ids))
