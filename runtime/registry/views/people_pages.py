"""People, their roles, and groups that own agents. Admins invite people and create groups."""

from collections.abc import Mapping

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission, Role
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.core.views import error_page, labels, query_params
from runtime.kernel.authority_limits import AuthorityLimit
from runtime.registry.queries import people
from runtime.registry.queries.people import AccountState
from runtime.registry.services import authority, groups
from runtime.registry.views import limit_forms

ACCOUNT_STATES: Mapping[AccountState, labels.Badge] = {
    AccountState.ACTIVE: labels.Badge("ok", "check", "Active"),
    AccountState.INVITED: labels.Badge("info", "wait", "Invited", "No password has been set yet"),
    AccountState.DEACTIVATED: labels.Badge("idle", "lock", "Deactivated"),
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List every user, and all groups except roles."""
    context = {
        "people": [(item, ACCOUNT_STATES[item.state]) for item in people.list_people(at=clock.now())],
        "groups": people.list_groups(tenant=tenant_of(request.user)),
        "may_manage": may(request.user, Permission.MANAGE_GROUPS),
        "may_invite": may(request.user, Permission.MANAGE_PEOPLE),
        "roles": list(Role),
        "longest_name": groups.LONGEST_NAME,
        "limits": limit_forms.shown(tenant=tenant_of(request.user)),
    }
    return render(request, "runtime/people.html", context)


@require_POST
@require(Permission.MANAGE_GROUPS)
def make_group(request: HttpRequest) -> HttpResponse:
    """Create an empty group."""
    name = request.POST.get("name", "").strip()
    answer = groups.make(tenant=tenant_of(request.user), name=name, actor=actor_of(request.user))
    return _answered(request, answer, "{group} was created. Add its members.")


@require_POST
@require(Permission.MANAGE_GROUPS)
def join(request: HttpRequest, group: int) -> HttpResponse:
    """Add a person to a group."""
    answer = groups.join(
        tenant=tenant_of(request.user),
        group_pk=group,
        user_pk=query_params.whole(request.POST.get("user", "")) or 0,
        actor=actor_of(request.user),
    )
    return _answered(request, answer, "The member was added to {group}.")


@require_POST
@require(Permission.MANAGE_GROUPS)
def leave(request: HttpRequest, group: int, user: int) -> HttpResponse:
    """Remove a person from a group."""
    answer = groups.leave(
        tenant=tenant_of(request.user), group_pk=group, user_pk=user, actor=actor_of(request.user)
    )
    return _answered(request, answer, "The member was removed from {group}.")


@require_POST
@require(Permission.MANAGE_GROUPS)
def set_limit(request: HttpRequest) -> HttpResponse:
    """Set how much a role or a person may decide, in place of the same limit before."""
    tenant = tenant_of(request.user)
    wanted = limit_forms.read(request.POST)
    if not isinstance(wanted, Problem):
        wanted = authority.in_the_one_unit(tenant=tenant, wanted=wanted)
    if not isinstance(wanted, Problem):
        wanted = authority.set_limit(tenant=tenant, wanted=wanted, actor=actor_of(request.user))
    return _limited(request, wanted, "The limit is set.")


@require_POST
@require(Permission.MANAGE_GROUPS)
def remove_limit(request: HttpRequest) -> HttpResponse:
    """Remove a limit, as its row on the page names it."""
    held = limit_forms.read(request.POST)
    if not isinstance(held, Problem):
        held = authority.remove_limit(tenant=tenant_of(request.user), held=held, actor=actor_of(request.user))
    return _limited(request, held, "The limit was removed.")


def _limited(request: HttpRequest, answer: AuthorityLimit | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("people"))
    messages.success(request, done)
    return redirect("people")


def _answered(request: HttpRequest, answer: Group | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("people"))
    messages.success(request, done.format(group=answer.name))
    return redirect("people")
