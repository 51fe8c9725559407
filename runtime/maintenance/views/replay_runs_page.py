"""The page of runs that replay all flows: start one, see how far it is, cancel it, read what it found."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.live.topics import Topic
from runtime.contracts.problem import Problem
from runtime.contracts.replay_run import MOST_FINDINGS, FindingResult, ReplayRunState
from runtime.core import paging
from runtime.core.views import error_page, labels, query_params
from runtime.core.views.labels import Badge
from runtime.flows.views import record_filter
from runtime.maintenance.models import ReplayFinding, ReplayRun
from runtime.maintenance.queries import replay_run_list
from runtime.maintenance.services import replay_runs
from runtime.proposals.views import replay_page

STATES: Final[Mapping[str, Badge]] = {
    ReplayRunState.RUNNING: Badge("info", "clock", "Running"),
    ReplayRunState.DONE: Badge("ok", "check", "Done"),
    ReplayRunState.CANCELLED: Badge("idle", "cross", "Cancelled"),
}
_FIELDS: Final = ("from", "to")
_LONGEST: Final = 40


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show a run, the newest where the address names none, with its findings page by page."""
    return _page(request)


@require_POST
@require(Permission.RUN_REPLAYS)
def start(request: HttpRequest) -> HttpResponse:
    """Begin a run over all flows, or over those of a period."""
    typed = {name: query_params.text(request.POST.get(name, ""), longest=_LONGEST) for name in _FIELDS}
    wrong: dict[str, str] = {}
    since, until = (record_filter.read_moment(typed, name, wrong) for name in _FIELDS)
    if since is not None and until is not None and since >= until:
        wrong["to"] = f"{typed['to']} is not after {typed['from']}."
    if wrong:
        return _page(request, typed=typed, wrong=wrong, status=400)
    answer = replay_runs.start(
        tenant=tenant_of(request.user), actor=actor_of(request.user), since=since, until=until
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("replay-runs"), title="No run was started")
    messages.success(request, "The run has started. You can leave this page.")
    return redirect("replay-runs")


@require_POST
@require(Permission.RUN_REPLAYS)
def cancel(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """End a run before it is done."""
    answer = replay_runs.cancel(tenant=tenant_of(request.user), run_id=run_id, actor=actor_of(request.user))
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("replay-runs"))
    messages.success(request, "The run is cancelled. What was counted so far is kept.")
    return redirect("replay-runs")


def _page(
    request: HttpRequest,
    *,
    typed: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    tenant = tenant_of(request.user)
    runs = replay_run_list.list_newest(tenant=tenant)
    asked = query_params.uuid(request.GET.get("run", ""))
    newest = runs[0] if runs else None
    shown = newest if asked is None else replay_run_list.get_run(tenant=tenant, run_id=asked)
    context: dict[str, Any] = {
        "run": None if shown is None else _shown(request, shown),
        "may_run": may(request.user, Permission.RUN_REPLAYS),
    }
    if "HX-Request" in request.headers:
        return render(request, "runtime/_replay_run.html", context)
    context |= {
        "topic": Topic.REPLAYS,
        "runs": [{"row": row, "state": labels.badge(STATES, row.state)} for row in runs],
        "is_running": any(row.state == ReplayRunState.RUNNING for row in runs),
        "asked": {"typed": typed or dict.fromkeys(_FIELDS, ""), "wrong": wrong or {}},
    }
    return render(request, "runtime/replay_runs.html", context, status=status)


def _shown(request: HttpRequest, row: ReplayRun) -> dict[str, Any]:
    after = query_params.uuid(request.GET.get("after", ""))
    page = replay_run_list.list_findings(run=row, after=after)
    query = request.GET.copy()
    query["run"] = str(row.pk)
    return {
        "row": row,
        "state": labels.badge(STATES, row.state),
        "is_running": row.state == ReplayRunState.RUNNING,
        # More flows than were counted at the beginning may have entries.
        "total": max(row.flows, row.replayed),
        "findings": [_finding(each) for each in page.rows],
        "most": MOST_FINDINGS,
        "is_cut": row.different + row.failed > MOST_FINDINGS,
        "pager": paging.pager(
            page=page,
            query=query,
            key="after",
            last=str(page.rows[-1].dfid) if page.rows else "",
            order="by flow, oldest first",
        ),
    }


def _finding(found: ReplayFinding) -> dict[str, Any]:
    if found.result == FindingResult.FAILED:
        words = f"The replay failed ({found.change}); the log of the server says more."
    else:
        words = replay_page.words_of(found.change)
    return {"row": found, "words": words}
