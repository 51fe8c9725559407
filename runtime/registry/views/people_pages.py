"""People, their roles, and groups that own agents. Admins create groups; roles are set by command."""

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page, query_params
from runtime.registry.queries import people
from runtime.registry.services import groups


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List everyone who can sign in, and all groups except roles."""
    context = {
        "people": people.list_people(),
        "groups": people.list_groups(tenant=tenant_of(request.user)),
        "may_manage": may(request.user, Permission.MANAGE_GROUPS),
        "longest_name": groups.LONGEST_NAME,
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


def _answered(request: HttpRequest, answer: Group | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("people"))
    messages.success(request, done.format(group=answer.name))
    return redirect("people")
