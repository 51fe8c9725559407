"""The POSTs of the decision page. GET never decides; identity comes from the session alone.

A refusal shows the page again, through `detail.page(request, escalation_id, problem=, entered=)`, with the
problem's status, so that nothing that was typed is lost.
"""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from audit.permissions import Role, require, signed_in, tenant_of
from escalations import forms
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import claiming, deciding, dry_running, revising
from escalations.services.wishes import Wish
from escalations.views import detail
from escalations.views.person import person_of
from runtime.contracts.problem import Problem
from runtime.services import races

DONE: dict[Action, str] = {
    Action.OVERRIDE: "Overridden. It runs as the agent proposed.",
    Action.MODIFY: "Modified. It runs as you changed it.",
    Action.ABORT: "Aborted. Nothing will run.",
    Action.REQUEST_INFO: "Asked. The clock stands still while the agent is waited for.",
    Action.RESUME: "Resumed, with the same key.",
    Action.MARK_DONE: "Marked as done, with the receipt you gave.",
    Action.ACKNOWLEDGE: "Acknowledged. Its silence counts anew from now.",
    Action.STOP_AGENT: "Stopped. The agent's calls are held until somebody resumes it.",
}
BUSY = Problem(status=409, code="BUSY", detail="Somebody else was faster. Look again, then decide.")


@require_POST
@signed_in
def decide(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Take one decision. Who may is decided, and recorded, by the service."""
    wish = _wish(request, escalation_id)
    if isinstance(wish, Problem):
        return _again(request, escalation_id, wish)
    try:
        outcome = deciding.decide(
            tenant=tenant_of(request.user),
            escalation_id=escalation_id,
            person=person_of(request),
            user=request.user,
            wish=wish,
        )
    except races.BusyError:
        outcome = BUSY
    if isinstance(outcome, Problem):
        return _again(request, escalation_id, outcome)
    messages.success(request, DONE[outcome.action])
    if outcome.action is Action.REQUEST_INFO:
        return redirect("escalation", escalation_id=escalation_id)
    return redirect("flow", dfid=outcome.dfid)


@require_POST
@require(Role.OPERATOR, Role.SENIOR)
def dry_run(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """What the gate would say to the changed parameters; nothing is stored."""
    wish = _wish(request, escalation_id)
    answer = (
        wish
        if isinstance(wish, Problem)
        else dry_running.dry_run(
            tenant=tenant_of(request.user), escalation_id=escalation_id, person=person_of(request), wish=wish
        )
    )
    context = {"problem": answer} if isinstance(answer, Problem) else {"verdict": answer}
    status = answer.status if isinstance(answer, Problem) else 200
    return render(request, "escalations/_dry_run.html", context, status=status)


@require_POST
@require(Role.OPERATOR, Role.SENIOR)
def claim(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Tell colleagues that one is looking."""
    return _after_claim(
        request,
        escalation_id,
        claiming.claim(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user),
    )


@require_POST
@require(Role.OPERATOR, Role.SENIOR)
def release(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Give the claim back."""
    return _after_claim(
        request,
        escalation_id,
        claiming.release(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user),
    )


def _wish(request: HttpRequest, escalation_id: UUID) -> Wish | Problem:
    row = Escalation.objects.of(tenant_of(request.user)).filter(escalation_id=escalation_id).first()
    if row is None:
        return Problem(status=404, code="ESCALATION_NOT_FOUND", detail="No escalation has this id.")
    schema: dict[str, Any] = revising.get_shown(row).get("kind", {}).get("params_schema", {})
    return forms.read_wish(request.POST, params_schema=schema)


def _again(request: HttpRequest, escalation_id: UUID, problem: Problem) -> HttpResponse:
    return detail.page(request, escalation_id, problem=problem, entered=request.POST)


def _after_claim(request: HttpRequest, escalation_id: UUID, problem: Problem | None) -> HttpResponse:
    if problem is not None:
        return _again(request, escalation_id, problem)
    return redirect("escalation", escalation_id=escalation_id)
