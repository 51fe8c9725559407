"""Spending an agent's escalation tokens (DIR paper, 9.3), under the lock of the agent's row.

An agent that asks for more people than its budget holds may only read until an admin refills it.
"""

from datetime import datetime

from audit import actors, events, ledger
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus
from runtime.kernel import budget_rules
from runtime.registry.models import Agent


def held_millitokens(*, agent: Agent, per_hour: int, at: datetime) -> int:
    """What the bucket holds at `at`, in thousandths of a token; `per_hour` is what the manifest grants."""
    return budget_rules.refill(
        millitokens=agent.escalation_millitokens,
        filled_at_ms=None if agent.bucket_at is None else timestamps.to_ms(agent.bucket_at),
        now_ms=timestamps.to_ms(at),
        per_hour=per_hour,
    )


def spend(*, agent: Agent, held: int, at: datetime) -> int:
    """Take one token of the `held` thousandths, which pay for it; how many thousandths are left."""
    agent.escalation_millitokens = held - budget_rules.MILLI
    # Never earlier than it was: a clock set back would fill the same minutes twice.
    agent.bucket_at = at if agent.bucket_at is None else max(agent.bucket_at, at)
    agent.save(update_fields=["escalation_millitokens", "bucket_at"])
    return agent.escalation_millitokens


def make_passive(*, agent: Agent, at: datetime) -> None:
    """Let an ACTIVE agent with an empty bucket only read; the status that a person gave another one stays."""
    if agent.status != AgentStatus.ACTIVE:
        return
    agent.status, agent.status_reason = AgentStatus.PASSIVE, Reason.ESCALATION_BUDGET_EXHAUSTED.value
    agent.save(update_fields=["status", "status_reason"])
    ledger.append_to(
        tenant=agent.tenant,
        stream=actors.agent(agent.agent_id),
        actor=actors.SYSTEM,
        at=at,
        events=[
            events.AgentStatusChanged(
                agent_id=agent.agent_id,
                from_status=AgentStatus.ACTIVE,
                to_status=AgentStatus.PASSIVE,
                reason=Reason.ESCALATION_BUDGET_EXHAUSTED,
            )
        ],
    )
