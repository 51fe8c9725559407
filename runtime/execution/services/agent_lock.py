"""The lock on an agent while one of its flows is partially executed (DIR paper, 7.3).

The agent's row is locked before the intent's: `locks.lock_intent` sees to it where there are several steps.
"""

from audit import actors, events
from runtime.contracts.reasons import Reason
from runtime.contracts.states import LIVE_INTENTS, AgentStatus, Direction
from runtime.flows.models import Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent
from runtime.registry.services import agents

# Who is out of work for a graver reason, or for good, stays so.
_LEFT_ALONE = (AgentStatus.LOCKED, AgentStatus.SUSPENDED, AgentStatus.RETIRED)


def lock_agent(journal: Journal) -> None:
    """Lock the flow's agent out of new operations, and keep what it was before."""
    agent = agents.lock_by_pk(pk=journal.flow.agent_id)
    before = AgentStatus(agent.status)
    if before in _LEFT_ALONE:
        return
    agent.locked_from, agent.locked_from_reason = before, agent.status_reason
    _move(journal, agent, to=AgentStatus.LOCKED, reason=Reason.PARTIAL_SUCCESS_DIRTY)


def unlock_agent(journal: Journal, *, ended: Intent) -> None:
    """Let the agent work again as before, unless a person has moved it since or another flow is dirty."""
    agent = agents.lock_by_pk(pk=journal.flow.agent_id)
    ours = agent.status == AgentStatus.LOCKED and agent.status_reason == Reason.PARTIAL_SUCCESS_DIRTY
    if not ours:
        return
    dirty = Intent.objects.filter(direction=Direction.COMPENSATE, state__in=LIVE_INTENTS)
    if dirty.filter(flow__agent=ended.flow.agent_id).exclude(pk=ended.pk).exists():
        return
    before, reason = AgentStatus(agent.locked_from or AgentStatus.ACTIVE), agent.locked_from_reason
    agent.locked_from, agent.locked_from_reason = "", ""
    _move(journal, agent, to=before, reason=reason)


def _move(journal: Journal, agent: Agent, *, to: AgentStatus, reason: str) -> None:
    before = agent.status
    agent.status, agent.status_reason = to, str(reason)
    agent.save(update_fields=["status", "status_reason", "locked_from", "locked_from_reason"])
    changed = events.AgentStatusChanged(
        agent_id=agent.agent_id, from_status=before, to_status=to, reason=str(reason)
    )
    # With the journal, after the resources that it settles: heads come last in the order of locks.
    journal.record_on(actors.agent(agent.agent_id), changed)
