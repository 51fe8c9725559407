"""The undo window of a decision on the pages, and the POST that takes a decision back."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from audit.access.permissions import require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import queries
from escalations.models import Escalation
from escalations.services import taking_back
from escalations.views import detail
from escalations.views.decide import post_here
from escalations.views.policy_person import person_of
from escalations.views.posts import BUSY
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions


@post_here
@require(Permission.DECIDE)
def take_back(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Take the decision back; the escalation's page then shows it open again, or why it is too late."""
    try:
        answer = taking_back.take_back(
            tenant=tenant_of(request.user), escalation_id=escalation_id, person=person_of(request)
        )
    except transactions.BusyError:
        answer = BUSY
    if isinstance(answer, Problem):
        return detail.page(request, escalation_id, problem=answer)
    messages.success(request, "Taken back. Nothing ran, and the escalation is open again.")
    return redirect("escalation", escalation_id=escalation_id)


@require_safe
@signed_in
def window(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return how long the decision can still be taken back, for live updates."""
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return render(request, "escalations/_undo.html", {"escalation": escalation, **context_of(escalation)})


def context_of(escalation: Escalation) -> dict[str, object]:
    """Return `undo_until`, the end of the undo window; None where nothing can be taken back."""
    intent = taking_back.get_open_window(escalation=escalation, at=clock.now())
    return {"undo_until": None if intent is None else intent.not_before}
