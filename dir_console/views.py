"""The frame around every page, the overview, and the two addresses that monitors ask."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from audit.events import Kind
from audit.models import LedgerEntry
from audit.permissions import Role, public, roles_of, signed_in, tenant_of
from escalations import presenters as escalation_presenters
from escalations import queries as escalation_queries
from runtime.contracts import states
from runtime.queries import clock
from runtime.queries.pages import activity, agents, people, reviews, stops
from runtime.views import charts, presenters, timeline

STOPPERS = frozenset({Role.OPERATOR, Role.SENIOR, Role.ADMIN})
RESUMERS = frozenset({Role.SENIOR, Role.ADMIN})
SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Operate",
        (
            ("Overview", "/", "overview"),
            ("Escalations", "/escalations/", "inbox"),
            ("Flows", "/flows/", "flow"),
            ("Reviews", "/reviews/", "high"),
        ),
    ),
    (
        "Govern",
        (
            ("Agents", "/agents/", "agent"),
            ("Budgets", "/budgets/", "budget"),
            ("Memory", "/memory/", "layers"),
            ("Policy kinds", "/kinds/", "kind"),
            ("Targets", "/targets/", "bolt"),
        ),
    ),
    ("Prove", (("Ledger", "/ledger/", "ledger"),)),
)

# Ticking prices and the passages of a flow would fill the short list of the overview within a second.
NOISE = (Kind.FLOW_MOVED.value, Kind.FACT_WRITTEN.value)


@dataclass(frozen=True, slots=True)
class StopShown:
    """The stop in force, as the banner says it."""

    reason: str
    by: str
    at: datetime


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Context of `base.html`. Lazy: the sign-in and error pages and the fragments never ask for it."""
    return {"chrome": SimpleLazyObject(lambda: _chrome(request))}


def _chrome(request: HttpRequest) -> dict[str, Any]:
    roles = roles_of(request.user)
    tenant = tenant_of(request.user)
    stop = stops.get_stop(tenant=tenant)
    counts = escalation_queries.count_open(tenant=tenant)
    shown = None
    if stop:
        names = people.names_of([stop.stopped_by])
        by = presenters.actor_words(stop.stopped_by, names)
        shown = StopShown(reason=stop.reason, by=by, at=stop.stopped_at)
    return {
        "groups": [{"title": title, "items": _items(items, request.path)} for title, items in SECTIONS],
        "stop": shown,
        "to_review": reviews.count_open(tenant=tenant),
        "open": counts.total,
        "high": counts.high,
        "open_tone": "danger" if counts.high else "idle",
        "may_stop": bool(roles & STOPPERS),
        "may_resume": bool(roles & RESUMERS),
        "roles_text": ", ".join(sorted(roles)) or "no role",
    }


def _items(items: tuple[tuple[str, str, str], ...], path: str) -> list[dict[str, Any]]:
    return [
        {
            "word": word,
            "url": url,
            "icon": icon,
            "counts": url == "/escalations/",
            "counts_reviews": url == "/reviews/",
            "current": path == url or (url != "/" and path.startswith(url)),
        }
        for word, url, icon in items
    ]


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """What waits, what flows, what is refused, and whether the ledger grows."""
    tenant, now = tenant_of(request.user), clock.now()
    if not agents.any_agent(tenant=tenant):
        return render(request, "console/first_run.html")
    context = _overview(tenant=tenant, now=now, user_pk=request.user.pk or 0)
    swapped = "HX-Request" in request.headers
    return render(request, "console/_overview.html" if swapped else "console/overview.html", context)


def _overview(*, tenant: str, now: datetime, user_pk: int) -> dict[str, Any]:
    wanted = escalation_queries.Filter()
    page = escalation_queries.list_decisions(tenant=tenant, wanted=wanted, after=None, size=5)
    urgent = [*escalation_queries.list_operational(tenant=tenant, wanted=wanted)[:3], *page.rows][:5]
    buckets = activity.list_throughput(tenant=tenant, now=now)
    latest = activity.list_latest_entries(
        tenant=tenant, before=None, stream="", kind="", size=8, besides=NOISE
    )
    newest = activity.list_latest_entries(tenant=tenant, before=None, stream="", kind="", size=1)
    flows = activity.flow_counts(tenant=tenant)
    return {
        "counts": escalation_queries.count_open(tenant=tenant),
        "stop": stops.get_stop(tenant=tenant),
        "to_review": reviews.count_open(tenant=tenant),
        "oldest_review_at": reviews.oldest_open_at(tenant=tenant),
        "urgent": escalation_presenters.rows(
            escalations=urgent,
            evidence=escalation_queries.get_evidence(escalations=urgent),
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
        "flows": [
            (presenters.badge(presenters.FLOW_STATES, state), state, count) for state, count in flows.items()
        ],
        "agent_statuses": [
            (presenters.badge(presenters.AGENT_STATUSES, status), status, count)
            for status, count in agents.status_counts(tenant=tenant).items()
        ],
        "agents_held": {
            status: count
            for status, count in agents.status_counts(tenant=tenant).items()
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
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@public
def readyz(request: HttpRequest) -> HttpResponse:
    """The database answers and its ledger can be read; 503 while it cannot."""
    try:
        LedgerEntry.objects.order_by("-id").values_list("id", flat=True).first()
    except DatabaseError:
        connection.close()
        return JsonResponse({"status": "unavailable", "why": "the database does not answer"}, status=503)
    return JsonResponse({"status": "ok"})
