"""Claims that move: renewed by an open page, taken over with a reason, handed over with a note."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from audit.access.permissions import require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import note_list, queries
from escalations.contracts import NotePurpose, State
from escalations.models import Escalation
from escalations.policy import DECIDING_ROLES
from escalations.services import claiming
from escalations.views import detail
from escalations.views.decide import post_here
from escalations.views.posts import BUSY
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.core.views import query_params

MOST_NAMED = 100
CONFLICT = 409


@post_here
@require(Permission.DECIDE)
def renew(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Lengthen the claim of whoever has this page open; 409 where it is no longer theirs."""
    try:
        held = claiming.renew(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user)
    except transactions.BusyError:
        held = True  # nothing is lost: the page asks again long before the claim ends
    return HttpResponse(status=204 if held else CONFLICT)


@post_here
@require(Permission.DECIDE)
def take_over(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Take the claim from the holder whom the page showed, with a reason."""
    return _after(
        request,
        escalation_id,
        claiming.take_over,
        holder=query_params.whole(request.POST.get("holder", "")),
        reason=request.POST.get("takeover_reason", ""),
    )


@post_here
@require(Permission.DECIDE)
def hand_over(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Give the claim to another person, with a note."""
    return _after(
        request,
        escalation_id,
        claiming.hand_over,
        receiver=request.POST.get("receiver", ""),
        note=request.POST.get("handover_note", ""),
    )


@require_safe
@signed_in
def move(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return who took the claim over or handed it over, for live updates."""
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return render(request, "escalations/_claim_move.html", last_move(request, escalation))


def last_move(request: HttpRequest, escalation: Escalation) -> dict[str, Any]:
    """The context of `_claim_move.html`: the newest move of the claim, while it matters to the reader.

    It matters to everybody while whom it gave the claim to holds it, and to the person addressed until the
    escalation is closed.
    """
    moved = None
    if escalation.state == State.OPEN:
        moved = note_list.get_last_move(
            tenant=escalation.tenant, dfid=escalation.flow_id, escalation_id=escalation.pk
        )
    if moved is None:
        return {"moved": None}
    now, me = clock.now(), request.user.pk
    to = moved.author_pk if moved.purpose == NotePurpose.TAKEOVER else moved.addressee_pk
    is_current = escalation.is_claimed(now) and escalation.claimed_by_id == to
    is_shown = is_current or me == moved.addressee_pk
    return {
        "moved": moved if is_shown else None,
        "is_to_me": me == moved.addressee_pk,
        "is_by_me": me == moved.author_pk,
    }


def list_others(request: HttpRequest) -> list[str]:
    """Who else has a role that decides, by name; at most `MOST_NAMED`."""
    people = User.objects.filter(is_active=True, groups__name__in=DECIDING_ROLES).exclude(
        pk=request.user.pk or 0
    )
    return list(people.order_by("username").values_list("username", flat=True).distinct()[:MOST_NAMED])


def _after(request: HttpRequest, escalation_id: UUID, act: Any, **asked: Any) -> HttpResponse:
    problem: Problem | None
    try:
        problem = act(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user, **asked)
    except transactions.BusyError:
        problem = BUSY
    if problem is not None:
        return detail.page(request, escalation_id, problem=problem, entered=request.POST)
    return redirect("escalation", escalation_id=escalation_id)
