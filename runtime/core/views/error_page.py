"""The page for a rejected form: it says why and links back, with the status of the refusal."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from audit.access.permissions import actor_of, tenant_of
from runtime.contracts.problem import Problem
from runtime.core import refusals
from runtime.core.views.forms import NOTHING_CHANGED, ActionForm

FORBIDDEN = 403


def page(request: HttpRequest, problem: Problem, *, back: str, title: str = NOTHING_CHANGED) -> HttpResponse:
    """Show why the form was rejected, with a link back. A 403 is recorded in the ledger."""
    if problem.status == FORBIDDEN:
        record(request, problem)
    violations = " ".join(f"{item.pointer}: {item.message}" for item in problem.violations)
    context = {
        "status": problem.status,
        "title": title,
        "detail": f"{problem.detail} {violations}".strip(),
        "href": back,
        "action": "Go back",
    }
    return render(request, "error.html", context, status=problem.status)


def record(request: HttpRequest, problem: Problem) -> None:
    """Record in the ledger what a signed-in person was refused."""
    refusals.record_refusal(
        tenant=tenant_of(request.user),
        stream=actor_of(request.user),
        code=problem.code,
        path=request.path,
        detail=problem.detail,
    )


def invalid(request: HttpRequest, form: ActionForm, *, back: str) -> HttpResponse:
    """Show the first error of a form."""
    return page(request, form.problem(), back=back, title=form.refused_title)
