"""Erase the words of a flow: the page says what would go, the form asks for a reason and the password."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.core.views import step_up
from runtime.core.views.forms import ReasonForm
from runtime.flows.queries import flow_search
from runtime.maintenance.services import erasure

BUSY = Problem(code=ProblemCode.BUSY, detail="Someone else changed this flow. Nothing was erased; try again.")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.ERASE)
def erase(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Show what would be erased; on a POST with a reason and a fresh password, erase it."""
    tenant = tenant_of(request.user)
    if flow_search.get_flow(tenant=tenant, dfid=dfid) is None:
        raise Http404
    if request.method != "POST":
        return _page(request, dfid)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, dfid, problem=form.problem())
    if not step_up.is_fresh(request):
        return _page(request, dfid, problem=step_up.NEEDED)
    try:
        answer = erasure.erase(
            tenant=tenant,
            dfids=[dfid],
            reason=form.cleaned_data["reason"].strip(),
            actor=actor_of(request.user),
        )
    except transactions.BusyError:
        answer = BUSY
    if isinstance(answer, Problem):
        return _page(request, dfid, problem=answer)
    if answer.kept:
        kept = Problem(code=ProblemCode.FLOW_KEPT, detail=answer.kept[0].why, dfid=str(dfid))
        return _page(request, dfid, problem=kept)
    if answer.flows:
        messages.success(request, f"Erased: {answer.flows[0].cells} cells are empty now.")
    else:
        messages.info(request, "There was nothing left to erase.")
    return redirect("flow", dfid)


def _page(request: HttpRequest, dfid: UUID, *, problem: Problem | None = None) -> HttpResponse:
    try:
        would = erasure.erase(
            tenant=tenant_of(request.user),
            dfids=[dfid],
            reason="",
            actor=actor_of(request.user),
            dry_run=True,
        )
    except transactions.BusyError:
        would = BUSY
    context: dict[str, Any] = {
        "dfid": dfid,
        "problem": problem,
        "refused": would if isinstance(would, Problem) else None,
        "kept": would.kept if isinstance(would, erasure.Erased) else (),
        "due": would.flows[0] if isinstance(would, erasure.Erased) and would.flows else None,
        "reason": request.POST.get("reason", ""),
        "is_fresh": step_up.is_fresh(request),
    }
    return render(request, "runtime/erase.html", context, status=200 if problem is None else problem.status)
