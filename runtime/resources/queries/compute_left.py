"""What is left of a flow's compute budget."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import statements
from runtime.contracts import timestamps
from runtime.contracts.facts import ComputeFacts
from runtime.kernel import budget_rules
from runtime.resources.models import ComputeBudget

if TYPE_CHECKING:
    from runtime.flows.models import Flow


def left_in(flow: "Flow", *, at: datetime) -> dict[str, Any]:
    """The fields of `wire.ComputeLeft` at `at`; empty where no budget is kept."""
    compute = get_compute(flow)
    return {} if compute is None else left_of(compute, at=at)


def left_of(compute: ComputeFacts, *, at: datetime) -> dict[str, Any]:
    """The fields of `wire.ComputeLeft` at `at`: never under nothing, None where nothing bounds it."""
    left = budget_rules.left(compute)
    cost = left.get("cost_left_micros")
    ends = compute.ends_at_ms
    return {
        "tokens_left": left.get("tokens_left"),
        "cost_left_usd": None if cost is None else budget_rules.dollars(cost),
        "tool_calls_left": left.get("tool_calls_left"),
        "wall_clock_left_s": None
        if ends is None
        else max(0, ends - timestamps.to_ms(at)) // budget_rules.MILLI,
    }


def get_compute(flow: "Flow") -> ComputeFacts | None:
    """The compute budget of a flow; None where its manifest set none and nothing was reported."""
    row = _BUDGET.first(dfid=flow.pk)
    return None if row is None else compute_of(row)


def _budget(*, dfid: UUID) -> QuerySet[ComputeBudget]:
    return ComputeBudget.objects.filter(flow=dfid)


_BUDGET: Final = statements.Read(_budget)


def compute_of(row: ComputeBudget) -> ComputeFacts:
    """A compute budget as the gate sees it."""
    return ComputeFacts(
        tokens_cap=row.tokens_cap,
        tokens_used=row.tokens_used,
        cost_cap_micros=row.cost_cap_micros,
        cost_used_micros=row.cost_used_micros,
        tool_calls_cap=row.tool_calls_cap,
        tool_calls_used=row.tool_calls_used,
        ends_at_ms=None if row.ends_at is None else timestamps.to_ms(row.ends_at),
    )
