"""The layout context of every page, the overview, and the two health endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.defaults import permission_denied

from audit.access import roles
from audit.access.permissions import actor_of, held_by, public, signed_in, tenant_of
from audit.access.roles import Permission, Role
from audit.events import Kind
from dir_console import command_line, glossary, health, inbox_sources, problems, sections, tour
from escalations import left_calls, presenters, queries
from escalations.queue_filter import QueueFilter
from runtime.contracts import states
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.core.refusals import record_refusal
from runtime.core.views import labels
from runtime.epochs.queries import current_epoch
from runtime.flows.queries import activity
from runtime.flows.views import charts, timeline
from runtime.guards.queries import review_list
from runtime.incidents.queries import incident_list
from runtime.incidents.views import presenters as incident_presenters
from runtime.registry.models import Stop
from runtime.registry.queries import agent_list, kind_versions, people
from runtime.stops.queries import stop_list

# Agents that the form of a resumption names.
WAITING_NAMED = 10

# Price updates and state changes of flows would fill the short list of the overview within a second.
NOISE = (Kind.FLOW_MOVED.value, Kind.FACT_WRITTEN.value)


@dataclass(frozen=True, slots=True)
class StopShown:
    """The active stop, as the banner shows it."""

    reason: str
    by: str
    at: datetime


class Chrome:
    """What `base.html` shows around a page. A part is asked for when a template first reads it.

    Sign-in pages and error pages read none of it, and the banner of a stop, fetched alone, reads no count.
    """

    most_named = WAITING_NAMED

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def _held(self) -> frozenset[Role]:
        return held_by(self._request.user)

    @cached_property
    def _tenant(self) -> str:
        return tenant_of(self._request.user)

    @cached_property
    def active_stop(self) -> Stop | None:
        """The row of the active stop."""
        return stop_list.get_stop(tenant=self._tenant)

    @cached_property
    def groups(self) -> Sequence[sections.Group]:
        """The menu."""
        return sections.groups(self._request.path)

    @cached_property
    def stop(self) -> StopShown | None:
        """The active stop."""
        if self.active_stop is None:
            return None
        by = labels.actor_words(self.active_stop.stopped_by, people.names_of([self.active_stop.stopped_by]))
        return StopShown(reason=self.active_stop.reason, by=by, at=self.active_stop.stopped_at)

    @cached_property
    def is_recovering(self) -> bool:
        """Whether a restored backup is being examined."""
        return current_epoch.is_recovering()

    @cached_property
    def in_inbox(self) -> int:
        """How much waits for a person with these roles."""
        asked = inbox_sources.Asked(
            self._tenant, actor_of(self._request.user), self._request.user.pk or 0, clock.now()
        )
        waiting = inbox_sources.count(asked, self._held)
        return waiting + (self.is_recovering and roles.allows(self._held, Permission.END_RECOVERY))

    @cached_property
    def to_review(self) -> int:
        """Open reviews."""
        return review_list.count_open(tenant=self._tenant)

    @cached_property
    def counts(self) -> queries.Counts:
        """Open escalations."""
        return queries.count_open(tenant=self._tenant)

    @cached_property
    def may_stop(self) -> bool:
        """Whether the person may stop everything."""
        return roles.allows(self._held, Permission.STOP)

    @cached_property
    def may_resume(self) -> bool:
        """Whether the person may resume everything."""
        return roles.allows(self._held, Permission.RESUME)

    @cached_property
    def waiting(self) -> int:
        """Intents that wait for the end of the stop."""
        return stop_list.count_waiting(tenant=self._tenant) if self.active_stop else 0

    @cached_property
    def waiting_agents(self) -> list[str]:
        """Whose they are, at most `most_named`."""
        if self.active_stop is None:
            return []
        return stop_list.list_waiting_agents(tenant=self._tenant, most=self.most_named)

    @cached_property
    def roles_text(self) -> str:
        """The roles of the person, in words."""
        return ", ".join(sorted(self._held)) or "no role"


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Return the context of `base.html`."""
    return {"chrome": Chrome(request)}


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """Show open escalations, open flows, rejections and the newest ledger entries."""
    tenant, now = tenant_of(request.user), clock.now()
    if not agent_list.any_agent(tenant=tenant):
        return render(request, "console/first_run.html", {"command": command_line.manage()})
    context = _overview(Chrome(request), tenant=tenant, now=now, user_pk=request.user.pk or 0)
    swapped = "HX-Request" in request.headers
    return render(request, "console/_overview.html" if swapped else "console/overview.html", context)


def _overview(around: Chrome, *, tenant: str, now: datetime, user_pk: int) -> dict[str, Any]:
    wanted = QueueFilter()
    page = queries.list_decisions(tenant=tenant, wanted=wanted, after=None, size=5)
    urgent = [*queries.list_operational(tenant=tenant, wanted=wanted)[:3], *page.rows][:5]
    buckets = activity.list_throughput(tenant=tenant, now=now)
    newest = activity.get_newest_entry(tenant=tenant)
    latest = activity.list_latest_besides(tenant=tenant, newest=newest, besides=NOISE, size=8)
    flows = activity.flow_counts(tenant=tenant)
    contradicted = left_calls.count_contradicted(tenant=tenant)
    incidents = incident_list.figures(tenant=tenant)
    counts, agents = around.counts, agent_list.status_counts(tenant=tenant)
    return {
        # The menu shows the same figures: they are asked for once.
        "chrome": around,
        "counts": counts,
        "tour": tour.stations(
            tenant=tenant,
            user_pk=user_pk,
            now=now,
            active=agents.get(states.AgentStatus.ACTIVE, 0),
            waiting=counts.total,
        ),
        "in_doubt": left_calls.count_in_doubt(tenant=tenant),
        "contradicted": contradicted,
        "stop": around.active_stop,
        "refusable": kind_versions.list_refusable(tenant=tenant),
        "incidents": incidents,
        "worst_incident": incident_presenters.SEVERITIES.get(incidents.worst),
        "to_review": around.to_review,
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
            (labels.badge(labels.AGENT_STATUSES, status), status, count) for status, count in agents.items()
        ],
        "agents_held": {
            status: count for status, count in agents.items() if status != states.AgentStatus.ACTIVE
        },
        "latest": timeline.lines(latest, names=people.names_of([entry.actor for entry in latest])),
        "head_hash": "" if newest is None else bytes(newest.hash).hex(),
        "head": newest,
        "now": now,
    }


@require_safe
@signed_in
def inbox(request: HttpRequest) -> HttpResponse:
    """Show what waits for a person with the roles of this one, oldest first within its kind."""
    held = held_by(request.user)
    asked = inbox_sources.Asked(
        tenant_of(request.user), actor_of(request.user), request.user.pk or 0, clock.now()
    )
    is_recovering = current_epoch.is_recovering() and roles.allows(held, Permission.END_RECOVERY)
    context = {"sections": inbox_sources.list_sections(asked, held), "is_recovering": is_recovering}
    return render(request, "console/inbox.html", context)


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
