"""Figures of the budgets page. Each is bounded by a window of time, or by a number of rows."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncMinute

from runtime.contracts import states
from runtime.kernel import budget_rules
from runtime.resources.models import ComputeBudget, Reservation, Resource, UsageReport

STRETCHES = 24
WINDOW = timedelta(hours=2)
MOST_OPEN, MOST_SHOWN, MOST_RESOURCES, MOST_HOLDERS = 300, 12, 50, 200


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """What was reported in one stretch of time."""

    begins_at: datetime
    tokens: int
    cost_micros: int
    tool_calls: int

    @property
    def cost_usd(self) -> str:
        """The cost in dollars, exactly."""
        return budget_rules.dollars(self.cost_micros)

    @property
    def is_used(self) -> bool:
        """Whether anything was reported."""
        return bool(self.tokens or self.cost_micros or self.tool_calls)


@dataclass(frozen=True, slots=True)
class Share:
    """One bound of a flow: used of a cap, and that share in per cent."""

    used: int
    cap: int

    @property
    def percent(self) -> int:
        """Rounded down; a cap of nothing is full."""
        return self.used * 100 // self.cap if self.cap else 100


@dataclass(frozen=True, slots=True)
class Near:
    """An open flow by what it has used of its compute budget; None where nothing bounds it."""

    row: ComputeBudget
    tokens: Share | None
    cost: Share | None
    tool_calls: Share | None

    @property
    def percent(self) -> int:
        """The bound that is nearest to its cap."""
        return max((share.percent for share in (self.tokens, self.cost, self.tool_calls) if share), default=0)


def list_use(
    *, tenant: str, now: datetime, agent_id: str = "", dfid: UUID | None = None
) -> list[BudgetWindow]:
    """Reports of the last two hours in stretches of five minutes that begin on the clock, oldest first.

    Of one agent or of one flow, where it is named.
    """
    step = WINDOW / STRETCHES
    seconds = step.total_seconds()
    end = datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, now.tzinfo)
    start = end - WINDOW
    wanted: dict[str, Any] = {"agent__agent_id": agent_id} if agent_id else {}
    wanted |= {} if dfid is None else {"flow_id": dfid}
    rows = (
        UsageReport.objects.of(tenant)
        .filter(reported_at__gte=start, reported_at__lt=end, **wanted)
        .annotate(minute=TruncMinute("reported_at"))
        .values_list("minute")
        .annotate(tokens=Sum("tokens"), cost=Sum("cost_micros"), calls=Sum("tool_calls"))
        .order_by()
    )
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for minute, *amounts in rows:
        kept = sums[int((minute - start) / step)]
        kept[:] = [before + more for before, more in zip(kept, amounts, strict=True)]
    return [BudgetWindow(start + number * step, *sums[number]) for number in range(STRETCHES)]


def list_use_by_agent(*, tenant: str, now: datetime) -> list[tuple[str, int, int, bool]]:
    """Agent id, tokens and cost in micro-dollars of the last two hours, the most tokens first.

    At last whether some of it was read from answers of targets.
    """
    rows = (
        UsageReport.objects.of(tenant)
        .filter(reported_at__gte=now - WINDOW)
        .values_list("agent__agent_id")
        .annotate(tokens=Sum("tokens"), cost=Sum("cost_micros"), metered=Count("pk", filter=~Q(target="")))
        .order_by("-tokens", "agent__agent_id")[:MOST_SHOWN]
    )
    return [(agent_id, tokens, micros, bool(metered)) for agent_id, tokens, micros, metered in rows]


def list_near_cap(*, tenant: str) -> list[Near]:
    """Open flows with a compute budget, the one nearest to its cap first."""
    rows = (
        ComputeBudget.objects.filter(flow__tenant=tenant)
        .exclude(flow__state__in=states.ENDED)
        .select_related("flow__agent")
        .order_by("-tokens_used", "-flow_id")[:MOST_OPEN]
    )
    found = [
        Near(
            row=row,
            tokens=_share(row.tokens_used, row.tokens_cap),
            cost=_share(row.cost_used_micros, row.cost_cap_micros),
            tool_calls=_share(row.tool_calls_used, row.tool_calls_cap),
        )
        for row in rows
    ]
    return sorted(found, key=lambda near: -near.percent)[:MOST_SHOWN]


def list_resources(*, tenant: str) -> list[tuple[Resource, list[Reservation]]]:
    """Every resource by name, with who holds some of it now, newest first."""
    holders: dict[int, list[Reservation]] = defaultdict(list)
    standing = Reservation.objects.filter(resource__tenant=tenant, state__in=states.STANDING)
    for row in standing.select_related("flow__agent").order_by("-id")[:MOST_HOLDERS]:
        holders[row.resource_id].append(row)
    rows = Resource.objects.of(tenant).order_by("name")[:MOST_RESOURCES]
    return [(row, holders[row.pk]) for row in rows]


def count_stopped(*, tenant: str, now: datetime) -> int:
    """Flows that a budget has stopped in the last two hours."""
    rows = ComputeBudget.objects.filter(
        flow__tenant=tenant, flow__reason="BUDGET_EXCEEDED", flow__ended_at__gte=now - WINDOW
    )
    return rows.count()


def _share(used: int, cap: int | None) -> Share | None:
    return None if cap is None else Share(used, cap)
