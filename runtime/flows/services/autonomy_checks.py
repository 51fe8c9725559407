"""Counting what an agent did, and lowering its level of autonomy where that is too much."""

from datetime import datetime

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.flows.queries import risk_signals
from runtime.registry.models import Agent
from runtime.registry.queries import autonomy_levels
from runtime.registry.services import autonomy


def lower_if_due(*, agent: Agent, manifest: ManifestDocument | None, at: datetime) -> bool:
    """Score an agent by the rule of its active manifest, and lower its level where the score says so.

    Nothing is counted of an agent that is READ_ONLY already, or retired. In the caller's transaction, which
    holds the agent.
    """
    recorded = autonomy_levels.get_recorded(agent)
    if recorded.level is AutonomyLevel.READ_ONLY or agent.status == AgentStatus.RETIRED:
        return False
    found = risk_signals.assess(agent=agent, manifest=manifest, raised_at=recorded.counts_from, at=at)
    return autonomy.lower(
        agent=agent, recorded=recorded, found=found.score, rule=found.rule, since=found.since
    )
