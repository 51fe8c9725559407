"""What a flow has used of its compute budget: added to under its lock, whoever says it."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import F

from runtime.contracts.facts import ComputeFacts
from runtime.registry.models import Agent
from runtime.resources.models import ComputeBudget, UsageReport
from runtime.resources.queries import compute_left

if TYPE_CHECKING:
    from runtime.flows.models import Flow


def spend(
    *,
    flow: "Flow",
    agent: Agent,
    at: datetime,
    tokens: int,
    cost_micros: int,
    tool_calls: int = 0,
    target: str = "",
) -> ComputeFacts:
    """Add to what a flow has used; `target` is whose answer said so, empty for the agent's own report."""
    ComputeBudget.objects.get_or_create(flow=flow)
    ComputeBudget.objects.filter(flow=flow).update(
        tokens_used=F("tokens_used") + tokens,
        cost_used_micros=F("cost_used_micros") + cost_micros,
        tool_calls_used=F("tool_calls_used") + tool_calls,
    )
    UsageReport.objects.create(
        tenant=flow.tenant,
        flow=flow,
        agent=agent,
        tokens=tokens,
        cost_micros=cost_micros,
        tool_calls=tool_calls,
        target=target,
        reported_at=at,
    )
    return compute_left.compute_of(ComputeBudget.objects.get(flow=flow))
