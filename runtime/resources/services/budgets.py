"""Budgets as they are given: a flow's compute at its opening, an agent's escalation bucket by a person."""

from datetime import timedelta
from typing import TYPE_CHECKING

from audit import actors, events, ledger
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus
from runtime.core import clock, transactions
from runtime.kernel import budget_rules
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.resources.models import ComputeBudget

if TYPE_CHECKING:
    from runtime.flows.models import Flow


def open_for(*, flow: "Flow", manifest: ManifestDocument | None) -> None:
    """Fix the caps of a flow at its opening, in the caller's transaction."""
    compute = None if manifest is None else manifest.compute
    if compute is None:
        return
    seconds = compute.wall_clock_s
    ComputeBudget.objects.create(
        flow=flow,
        tokens_cap=compute.tokens,
        cost_cap_micros=None if compute.cost_usd is None else budget_rules.micros(compute.cost_usd),
        tool_calls_cap=compute.tool_calls,
        ends_at=None if seconds is None else flow.opened_at + timedelta(seconds=seconds),
    )


@transactions.retried
def refill(*, tenant: str, agent_id: str, actor: str, reason: str) -> Agent | Problem:
    """Fill an agent's escalation bucket; one that an empty bucket has made PASSIVE is ACTIVE again."""
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    manifest = granted_kinds.manifest_of(agent)
    if manifest is None:
        detail = "The agent has no active manifest, so it has no budget. Activate a manifest first."
        return Problem(code=ProblemCode.NO_MANIFEST, detail=detail)
    at = ledger.time_of_next(tenant=tenant, stream=actors.agent(agent_id), at=clock.now())
    tokens = manifest.escalations_per_hour
    agent.escalation_millitokens, agent.bucket_at = tokens * budget_rules.MILLI, at
    added: list[events.Event] = [events.BudgetRefilled(agent_id=agent_id, tokens=tokens, reason=reason[:200])]
    if (agent.status, agent.status_reason) == (AgentStatus.PASSIVE, Reason.ESCALATION_BUDGET_EXHAUSTED):
        agent.status, agent.status_reason = AgentStatus.ACTIVE, reason[:200]
        added.append(
            events.AgentStatusChanged(
                agent_id=agent_id,
                from_status=AgentStatus.PASSIVE,
                to_status=AgentStatus.ACTIVE,
                reason=reason[:200],
            )
        )
    agent.save(update_fields=["escalation_millitokens", "bucket_at", "status", "status_reason"])
    ledger.append_to(tenant=tenant, stream=actors.agent(agent_id), actor=actor, at=at, events=added)
    return agent
