"""Budgets: escalation tokens, compute and reservations. Everyone reads; admins refill and set capacities."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts import timestamps
from runtime.contracts.manifest import Compute
from runtime.contracts.problem import Problem
from runtime.core import clock, paging
from runtime.core.views import column_chart, error_page, labels, query_params, times
from runtime.core.views.forms import NOTHING_CHANGED, ActionForm, ReasonField, ReasonForm
from runtime.flows.queries import activity
from runtime.kernel import budget_rules
from runtime.registry.models import Agent
from runtime.registry.queries import agent_list, granted_kinds
from runtime.resources.models import Reservation, Resource
from runtime.resources.queries import budget_figures
from runtime.resources.services import budgets, resources

LEAST_ESCALATIONS, LEAST_TOKENS, LEAST_MICROS = 2, 100, budget_rules.MICRO // 100
NEAR, FULL = 75, 90
LONGEST_REASON = 200
_NO_CAPACITY = "Enter the capacity as a whole number in the resource's unit, without separators."


class RefillForm(ReasonForm):
    """Why an agent's escalation bucket is refilled."""

    reason = ReasonField(LONGEST_REASON, suffix=f" {NOTHING_CHANGED}.")


class CapacityForm(ActionForm):
    """Another capacity of a resource."""

    refused_title = "A number is required"

    name = forms.CharField(required=False, strip=False)
    capacity = forms.RegexField(
        r"^[0-9]{1,18}\Z", strip=True, error_messages={"required": _NO_CAPACITY, "invalid": _NO_CAPACITY}
    )


@dataclass(frozen=True, slots=True)
class Tokens:
    """A token bucket now: whole tokens left, capacity, time of the next token, and the meter's width."""

    left: int
    capacity: int
    next_in: str
    full_at: datetime | None
    width: int
    tone: str


def tokens(agent: Agent, *, now: datetime) -> Tokens | None:
    """Return the stored level plus refills since; None without a manifest, which sets the capacity."""
    manifest = granted_kinds.manifest_of(agent)
    if manifest is None:
        return None
    per_hour, now_ms = manifest.escalations_per_hour, timestamps.to_ms(now)
    level = budget_rules.refill(
        millitokens=agent.escalation_millitokens,
        filled_at_ms=None if agent.bucket_at is None else timestamps.to_ms(agent.bucket_at),
        now_ms=now_ms,
        per_hour=per_hour,
    )
    left, full = budget_rules.whole_tokens(level), per_hour * budget_rules.MILLI
    next_ms = budget_rules.filled_in_ms(
        millitokens=level, to=(left + 1) * budget_rules.MILLI, per_hour=per_hour
    )
    full_ms = budget_rules.filled_in_ms(millitokens=level, to=full, per_hour=per_hour)
    return Tokens(
        left=left,
        capacity=per_hour,
        next_in=times.span(timedelta(milliseconds=next_ms)) if next_ms and level < full else "",
        full_at=None if full_ms is None else timestamps.from_ms(now_ms + full_ms),
        width=level * 100 // full if full else 0,
        tone="ok" if left > 1 else "warn" if left else "danger",
    )


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show all budgets of the tenant and what is left of each."""
    tenant, now = tenant_of(request.user), clock.now()
    page = agent_list.list_agents(tenant=tenant, after=request.GET.get("after", "")[:128], status="")
    rows = [_agent(agent, now) for agent in page.rows]
    # The agent or flow whose usage is requested; neither means all.
    of_whom: dict[str, Any] = {
        "agent_id": query_params.text(request.GET.get("agent", "")),
        "dfid": query_params.uuid(request.GET.get("flow", "").strip()),
    }
    use = budget_figures.list_use(tenant=tenant, now=now, **of_whom)
    # Each ESCALATE spends a token; proposals by people never do.
    asked = activity.list_throughput(tenant=tenant, now=now, **of_whom)
    everybody = use if not any(of_whom.values()) else budget_figures.list_use(tenant=tenant, now=now)
    near = [_near(item, now) for item in budget_figures.list_near_cap(tenant=tenant)]
    held = [_resource(row, holders) for row, holders in budget_figures.list_resources(tenant=tenant)]
    context = {
        "agents": rows,
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="after",
            last=page.rows[-1].agent_id if page.rows else "",
            order="by name",
        ),
        "empty_buckets": sum(row["tokens"] is not None and not row["tokens"].left for row in rows),
        "use": [{"row": item, "escalations": one.escalated} for item, one in zip(use, asked, strict=False)],
        "of_whom": of_whom,
        "used": {
            "escalations": sum(item.escalated for item in asked),
            "tokens": labels.number(sum(item.tokens for item in use)),
            "cost": budget_rules.dollars(sum(item.cost_micros for item in use)),
        },
        "tokens": labels.number(sum(item.tokens for item in everybody)),
        "cost": budget_rules.dollars(sum(item.cost_micros for item in everybody)),
        "charts": _charts(use, [(item.begins_at, item.escalated) for item in asked]),
        "by_agent": _by_agent(budget_figures.list_use_by_agent(tenant=tenant, now=now)),
        "near": near,
        "near_cap": sum(row["percent"] >= NEAR for row in near),
        "stopped": budget_figures.count_stopped(tenant=tenant, now=now),
        "resources": held,
        "tight": sum(row["percent"] >= FULL for row in held),
        "may_refill": may(request.user, Permission.MANAGE_BUDGETS),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_budgets.html" if swapped else "runtime/budgets.html", context)


@require_POST
@require(Permission.MANAGE_BUDGETS)
def refill(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Fill an agent's escalation bucket, and reactivate it if the empty bucket made it PASSIVE."""
    form = RefillForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("budgets"))
    answer = budgets.refill(
        tenant=tenant_of(request.user),
        agent_id=agent_id,
        actor=actor_of(request.user),
        reason=form.cleaned_data["reason"],
    )
    return _answer(request, answer, f"The bucket of {agent_id} is full.")


@require_POST
@require(Permission.MANAGE_BUDGETS)
def set_capacity(request: HttpRequest) -> HttpResponse:
    """Set a resource's capacity, never below the amount in use."""
    form = CapacityForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("budgets"))
    name, capacity = form.cleaned_data["name"], int(form.cleaned_data["capacity"])
    answer = resources.set_capacity(
        tenant=tenant_of(request.user), name=name, capacity=capacity, actor=actor_of(request.user)
    )
    unit = answer.unit if isinstance(answer, Resource) else ""
    return _answer(request, answer, f"{name} now has a capacity of {labels.amount(capacity, unit)}.")


def _agent(agent: Agent, now: datetime) -> dict[str, Any]:
    manifest = granted_kinds.manifest_of(agent)
    compute = None if manifest is None else manifest.compute
    return {
        "agent": agent,
        "status": labels.badge(labels.AGENT_STATUSES, agent.status),
        "tokens": tokens(agent, now=now),
        "caps": _caps(compute),
        "per_minute": None if manifest is None else manifest.proposals_per_minute,
    }


def _caps(compute: Compute | None) -> str:
    """Return the caps per flow as text; empty if there are none."""
    if compute is None:
        return ""
    caps = (
        (compute.tokens, "tokens"),
        (compute.cost_usd, "USD"),
        (compute.tool_calls, "calls"),
        (compute.wall_clock_s, "s"),
    )
    return ", ".join(f"{labels.number(value)} {unit}" for value, unit in caps if value is not None)


def _by_agent(counted: list[tuple[str, int, int, bool]]) -> list[dict[str, Any]]:
    most = max((tokens for _, tokens, *_ in counted), default=0) or 1
    return [
        {
            "agent_id": agent_id,
            "words": f"{labels.number(tokens)} tokens, {budget_rules.dollars(micros)} USD"
            + (", partly metered" if is_metered else ""),
            "width": max(2, tokens * 100 // most),
        }
        for agent_id, tokens, micros, is_metered in counted
    ]


def _charts(
    use: list[budget_figures.BudgetWindow], asked: list[tuple[datetime, int]]
) -> list[dict[str, Any]]:
    most = column_chart.round_up(max((count for _, count in asked), default=0), least=LEAST_ESCALATIONS)
    tokens = column_chart.round_up(max((item.tokens for item in use), default=0), least=LEAST_TOKENS)
    micros = column_chart.round_up(max((item.cost_micros for item in use), default=0), least=LEAST_MICROS)
    return [
        {
            "id": "escalations",
            "title": "Escalation tokens spent per 5 minutes",
            "chart": column_chart.draw(asked, top=most, words=labels.number(most)),
        },
        {
            "id": "tokens",
            "title": "Tokens per 5 minutes",
            "chart": column_chart.draw(
                [(item.begins_at, item.tokens) for item in use], top=tokens, words=labels.number(tokens)
            ),
        },
        {
            "id": "cost",
            "title": "Cost per 5 minutes",
            "chart": column_chart.draw(
                [(item.begins_at, item.cost_micros) for item in use],
                top=micros,
                words=f"{budget_rules.dollars(micros)} USD",
            ),
        },
    ]


def _near(item: budget_figures.Near, now: datetime) -> dict[str, Any]:
    row, percent = item.row, item.percent
    return {
        "flow": row.flow,
        "state": labels.badge(labels.FLOW_STATES, row.flow.state),
        "tokens": _words(item.tokens),
        "cost": _words(item.cost, dollars=True),
        "tool_calls": _words(item.tool_calls),
        "ends_at": row.ends_at,
        "is_late": row.ends_at is not None and row.ends_at <= now,
        "percent": percent,
        "width": min(100, percent),
        "tone": "danger" if percent >= FULL else "warn" if percent >= NEAR else "ok",
    }


def _words(share: budget_figures.Share | None, *, dollars: bool = False) -> str:
    if share is None:
        return ""
    used, cap = (
        (budget_rules.dollars(share.used), budget_rules.dollars(share.cap))
        if dollars
        else (labels.number(share.used), labels.number(share.cap))
    )
    return f"{used} of {cap}"


def _resource(row: Resource, holders: list[Reservation]) -> dict[str, Any]:
    used = row.committed + row.reserved
    percent = used * 100 // row.capacity if row.capacity else 100
    committed = row.committed * 100 // row.capacity if row.capacity else 0
    return {
        "row": row,
        "holders": [
            {
                "row": holder,
                "amount": labels.amount(holder.amount, row.unit),
                "state": labels.badge(labels.RESERVATIONS, holder.state),
            }
            for holder in holders
        ],
        "capacity": labels.amount(row.capacity, row.unit),
        "committed": labels.amount(row.committed, row.unit),
        "reserved": labels.amount(row.reserved, row.unit),
        "free": labels.amount(row.capacity - used, row.unit),
        "used": labels.amount(used, row.unit),
        "percent": percent,
        "committed_width": committed,
        "reserved_width": percent - committed,
        "tone": "danger" if percent >= FULL else "warn" if percent >= NEAR else "accent",
    }


def _answer(request: HttpRequest, answer: Agent | Resource | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("budgets"))
    messages.success(request, done)
    return redirect("budgets")
