"""The layout context of every page, the overview, and the two health endpoints."""

import shlex
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe
from django.views.defaults import permission_denied

from audit.access import roles
from audit.access.permissions import actor_of, public, roles_of, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from dir_console import glossary, health, problems
from escalations import left_calls, presenters, queries
from runtime.contracts import states
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.core.refusals import record_refusal
from runtime.core.views import labels
from runtime.epochs.queries import current_epoch
from runtime.flows.queries import activity
from runtime.flows.views import charts, timeline
from runtime.guards.queries import review_list
from runtime.registry.queries import agent_list, kind_versions, people
from runtime.stops.queries import stop_list

# The word, the name of the address and the icon of each page.
SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Operate",
        (
            ("Overview", "overview", "overview"),
            ("Escalations", "escalations", "inbox"),
            ("Flows", "flows", "flow"),
            ("Reviews", "reviews", "high"),
        ),
    ),
    (
        "Govern",
        (
            ("Agents", "agents", "agent"),
            ("Budgets", "budgets", "budget"),
            ("Memory", "memory", "layers"),
            ("Policy kinds", "kinds", "kind"),
            ("Targets", "targets", "bolt"),
            ("People", "people", "user"),
        ),
    ),
    ("Audit", (("Ledger", "ledger", "ledger"),)),
)

# Price updates and state changes of flows would fill the short list of the overview within a second.
NOISE = (Kind.FLOW_MOVED.value, Kind.FACT_WRITTEN.value)


@dataclass(frozen=True, slots=True)
class StopShown:
    """The active stop, as the banner shows it."""

    reason: str
    by: str
    at: datetime


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Return the context of `base.html`. Lazy: sign-in pages, error pages and fragments never need it."""
    return {"chrome": SimpleLazyObject(lambda: _chrome(request))}


def _chrome(request: HttpRequest) -> dict[str, Any]:
    held, tenant, path = roles_of(request.user), tenant_of(request.user), request.path
    stop = stop_list.get_stop(tenant=tenant)
    counts = queries.count_open(tenant=tenant)
    shown = None
    if stop:
        names = people.names_of([stop.stopped_by])
        by = labels.actor_words(stop.stopped_by, names)
        shown = StopShown(reason=stop.reason, by=by, at=stop.stopped_at)
    return {
        "groups": [
            {
                "title": title,
                "items": [
                    {
                        "word": word,
                        "url": url,
                        "icon": icon,
                        "counts": name == "escalations",
                        "counts_reviews": name == "reviews",
                        "current": path == url or (name != "overview" and path.startswith(url)),
                    }
                    for word, name, icon in items
                    for url in [reverse(name)]
                ],
            }
            for title, items in SECTIONS
        ],
        "stop": shown,
        "is_recovering": current_epoch.is_recovering(),
        "to_review": review_list.count_open(tenant=tenant),
        "open": counts.total,
        "high": counts.high,
        "open_tone": "danger" if counts.high else "idle",
        "may_stop": roles.allows(held, Permission.STOP),
        "may_resume": roles.allows(held, Permission.RESUME),
        "waiting": stop_list.count_waiting(tenant=tenant) if stop else 0,
        "roles_text": ", ".join(sorted(held)) or "no role",
    }


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """Show open escalations, open flows, rejections and the newest ledger entries."""
    tenant, now = tenant_of(request.user), clock.now()
    if not agent_list.any_agent(tenant=tenant):
        # How to run this server's `manage.py`: its Python, and its data folder if that is not ./var.
        root, python = settings.BASE_DIR, Path(sys.executable)
        program = shlex.quote(str(python.relative_to(root) if python.is_relative_to(root) else python))
        data = settings.DATA_DIR
        folder = "" if root / "var" == data else f"DIR_DATA={shlex.quote(str(data))} "
        return render(request, "console/first_run.html", {"command": f"{folder}{program} manage.py"})
    context = _overview(tenant=tenant, now=now, user_pk=request.user.pk or 0)
    swapped = "HX-Request" in request.headers
    return render(request, "console/_overview.html" if swapped else "console/overview.html", context)


def _overview(*, tenant: str, now: datetime, user_pk: int) -> dict[str, Any]:
    wanted = queries.QueueFilter()
    page = queries.list_decisions(tenant=tenant, wanted=wanted, after=None, size=5)
    urgent = [*queries.list_operational(tenant=tenant, wanted=wanted)[:3], *page.rows][:5]
    buckets = activity.list_throughput(tenant=tenant, now=now)
    latest = activity.list_latest_besides(tenant=tenant, besides=NOISE, size=8)
    newest = activity.list_latest_entries(tenant=tenant, before=None, stream="", kind="", size=1)
    flows = activity.flow_counts(tenant=tenant)
    contradicted = left_calls.count_contradicted(tenant=tenant)
    return {
        "counts": queries.count_open(tenant=tenant),
        "in_doubt": left_calls.count(tenant=tenant) - contradicted,
        "contradicted": contradicted,
        "stop": stop_list.get_stop(tenant=tenant),
        "refusable": kind_versions.list_refusable(tenant=tenant),
        "to_review": review_list.count_open(tenant=tenant),
        "oldest_review_at": review_list.oldest_open_at(tenant=tenant),
        "urgent": presenters.rows(
            escalations=urgent,
            evidence=queries.get_evidence(tenant=tenant, escalations=urgent),
            now=now,
            user_pk=user_pk,
        ),
        "chart": charts.throughput(buckets),
        "verdicts": {
            "accepted": sum(bucket.accepted for bucket in buckets),
            "escalated": sum(bucket.escalated for bucket in buckets),
            "rejected": sum(bucket.rejected for bucket in buckets),
            "total": sum(bucket.total for bucket in buckets),
        },
        "reject_reasons": charts.bars(activity.count_reject_reasons(tenant=tenant, now=now)),
        "flows_open": sum(flows.values()),
        "flows": [(labels.badge(labels.FLOW_STATES, state), state, count) for state, count in flows.items()],
        "agent_statuses": [
            (labels.badge(labels.AGENT_STATUSES, status), status, count)
            for status, count in agent_list.status_counts(tenant=tenant).items()
        ],
        "agents_held": {
            status: count
            for status, count in agent_list.status_counts(tenant=tenant).items()
            if status != states.AgentStatus.ACTIVE
        },
        "latest": timeline.lines(latest, names=people.names_of([entry.actor for entry in latest])),
        "head_hash": bytes(newest[0].hash).hex() if newest else "",
        "head": newest[0] if newest else None,
        "now": now,
    }


@require_safe
@public
def livez(request: HttpRequest) -> HttpResponse:
    """Report that the process responds."""
    return JsonResponse({"status": "ok"})


@require_safe
@public
def readyz(request: HttpRequest) -> HttpResponse:
    """Report whether all dependencies work; 503 names those that do not."""
    failing = {part: why for part, why in health.examine().items() if why}
    if failing:
        why = "; ".join(failing.values())
        return JsonResponse({"status": "unavailable", "why": why, "failing": failing}, status=503)
    return JsonResponse({"status": "ok"})


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the 403 page and record the refusal of a signed-in person; a busy database gives the 503 page.

    An exception raised here would be a 500: no middleware sees it.
    """
    try:
        if request.user.is_authenticated:
            record_refusal(
                tenant=tenant_of(request.user),
                stream=actor_of(request.user),
                code=ProblemCode.ROLE_MISSING,
                path=request.path,
                detail="This page requires another role.",
            )
    except problems.BUSY_ERRORS as error:
        return problems.busy_page(request, error)
    return permission_denied(request, exception)


@require_safe
@signed_in
def glossary_page(request: HttpRequest) -> HttpResponse:
    """Show what every word of the pages means."""
    return render(request, "console/glossary.html", {"terms": glossary.terms()})
