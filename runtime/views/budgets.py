"""Budgets: escalation tokens of each agent as they stand now, and the caps of its manifest."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.permissions import signed_in, tenant_of
from runtime.models import Agent
from runtime.queries import clock
from runtime.queries.pages import agents, paging
from runtime.views import presenters

TOKEN = 1000  # the row counts thousandths of a token
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A bucket now: whole tokens left, its capacity, when the next one is whole, and the meter's width."""

    left: int
    capacity: int
    next_in: str
    width: int
    tone: str


def tokens(agent: Agent, *, now: datetime) -> Tokens | None:
    """The stored level and what has flowed in since; None without a manifest, which sets the capacity."""
    if agent.active_manifest is None:
        return None
    capacity = int(canonical.decode(bytes(agent.active_manifest.body)).get("escalations_per_hour", 3))
    full = capacity * TOKEN
    since = full if agent.bucket_at is None else int((now - agent.bucket_at) / HOUR * full)
    level = max(0, min(agent.escalation_millitokens + since, full))
    missing = TOKEN - level % TOKEN
    return Tokens(
        left=level // TOKEN,
        capacity=capacity,
        next_in=presenters.span(HOUR * missing / full) if 0 <= level < full else "",
        width=level * 100 // full if full else 0,
        tone="ok" if level >= 2 * TOKEN else "warn" if level >= TOKEN else "danger",
    )


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Every agent's budgets; those nearest to empty stand out by tone and word."""
    page = agents.list_agents(
        tenant=tenant_of(request.user), after=request.GET.get("after", "")[:128], status=""
    )
    now = clock.now()
    context = {
        "rows": [_row(agent, now) for agent in page.rows],
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="after",
            last=page.rows[-1].agent_id if page.rows else "",
            order="by name",
        ),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_budgets.html" if swapped else "runtime/budgets.html", context)


def _row(agent: Agent, now: datetime) -> dict[str, Any]:
    body = canonical.decode(bytes(agent.active_manifest.body)) if agent.active_manifest else {}
    compute = body.get("compute") or {}
    return {
        "agent": agent,
        "status": presenters.badge(presenters.AGENT_STATUSES, agent.status),
        "tokens": tokens(agent, now=now),
        "compute_tokens": compute.get("tokens"),
        "compute_cost": compute.get("cost_usd"),
        "per_minute": body.get("proposals_per_minute"),
    }
