"""One person: account, groups and what they decided lately; and one's own account."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission, Role
from escalations import presenters, queries
from runtime.core import clock
from runtime.registry.queries import invitations, people
from runtime.registry.views.people_pages import ACCOUNT_STATES

DECISIONS_SHOWN = 10


@require_safe
@signed_in
def person(request: HttpRequest, user: int) -> HttpResponse:
    """Show an account; admins may change it, unless it is their own."""
    context = _account(request, user)
    invited = invitations.last_of(user_pk=user)
    context |= {
        "roles": list(Role),
        "is_own": user == request.user.pk,
        "may_manage": may(request.user, Permission.MANAGE_PEOPLE) and user != request.user.pk,
        "invited_until": None if invited is None else invited.payload.get("expires_at"),
    }
    return render(request, "console/person.html", context)


@require_safe
@signed_in
def account(request: HttpRequest) -> HttpResponse:
    """Show one's own name, roles and sessions, and where to change the password."""
    return render(request, "console/account.html", _account(request, request.user.pk or 0))


def _account(request: HttpRequest, user_pk: int) -> dict[str, Any]:
    shown = people.get_person(user_pk=user_pk, at=clock.now(), this_session=request.session.session_key or "")
    if shown is None:
        raise Http404
    decisions = queries.list_decided(tenant=tenant_of(request.user), user_pk=user_pk, size=DECISIONS_SHOWN)
    return {
        "person": shown,
        "state": ACCOUNT_STATES[shown.state],
        "decisions": [(row, presenters.RESOLUTIONS[row.action]) for row in decisions],
    }
