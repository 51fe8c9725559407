"""What admins do to accounts, what people do to their own, and the page behind an invite link."""

from collections.abc import Collection
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import DEFAULT_TENANT, actor_of, public, require, signed_in, tenant_of
from audit.access.roles import Permission, Role
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.views import error_page
from runtime.registry.services import invites, people_admin

_TWICE = Problem(
    code=ProblemCode.INVALID_REQUEST, detail="The two passwords differ. Type the same one in both fields."
)
_LONGEST_PASSWORD = 1000
_TOO_LONG = Problem(
    code=ProblemCode.INVALID_REQUEST,
    detail=f"This password is too long. It must contain at most {_LONGEST_PASSWORD} characters.",
)


@require_POST
@require(Permission.MANAGE_PEOPLE)
def invite(request: HttpRequest) -> HttpResponse:
    """Add a user and show the link once."""
    roles = _roles(request.POST.getlist("roles"))
    if roles is None:
        return _unknown_role(request, back=reverse("people"))
    name = request.POST.get("name", "").strip()
    answer = invites.add(tenant=tenant_of(request.user), name=name, roles=roles, actor=actor_of(request.user))
    return _link_page(request, answer, back=reverse("people"))


@require_POST
@require(Permission.MANAGE_PEOPLE)
def renew(request: HttpRequest, user: int) -> HttpResponse:
    """Make a new link for a user, which ends their password and sessions, and show it once."""
    answer = invites.renew(tenant=tenant_of(request.user), user_pk=user, actor=actor_of(request.user))
    return _link_page(request, answer, back=reverse("person", args=[user]))


@require_POST
@require(Permission.MANAGE_PEOPLE)
def change_roles(request: HttpRequest, user: int) -> HttpResponse:
    """Give a user other roles."""
    back = reverse("person", args=[user])
    roles, seen = _roles(request.POST.getlist("roles")), _roles(request.POST.getlist("seen"))
    if roles is None or seen is None:
        return _unknown_role(request, back=back)
    answer = people_admin.change_roles(
        tenant=tenant_of(request.user), user_pk=user, seen=seen, roles=roles, actor=actor_of(request.user)
    )
    return _answered(request, answer, back=back, done="{name} now has these roles.")


@require_POST
@require(Permission.MANAGE_PEOPLE)
def deactivate(request: HttpRequest, user: int) -> HttpResponse:
    """Lock a user out."""
    answer = people_admin.deactivate(
        tenant=tenant_of(request.user), user_pk=user, actor=actor_of(request.user)
    )
    return _answered(
        request, answer, back=reverse("person", args=[user]), done="{name} is deactivated and signed out."
    )


@require_POST
@require(Permission.MANAGE_PEOPLE)
def reactivate(request: HttpRequest, user: int) -> HttpResponse:
    """Let a user sign in again."""
    answer = people_admin.reactivate(
        tenant=tenant_of(request.user), user_pk=user, actor=actor_of(request.user)
    )
    return _answered(request, answer, back=reverse("person", args=[user]), done="{name} may sign in again.")


@require_POST
@require(Permission.MANAGE_PEOPLE)
def end_sessions(request: HttpRequest, user: int) -> HttpResponse:
    """Sign somebody else out everywhere."""
    answer = people_admin.end_sessions(
        tenant=tenant_of(request.user), user_pk=user, actor=actor_of(request.user)
    )
    back = reverse("person", args=[user])
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, _ended(answer))
    return redirect(back)


@require_POST
@signed_in
def end_own_sessions(request: HttpRequest) -> HttpResponse:
    """Sign oneself out in every other browser."""
    assert isinstance(request.user, User)  # noqa: S101  # as `signed_in` admits
    ended = people_admin.end_own_sessions(
        tenant=tenant_of(request.user), user=request.user, this=request.session.session_key or ""
    )
    messages.success(request, _ended(ended))
    return redirect("account")


@require_http_methods(["GET", "HEAD", "POST"])
@public
def accept(request: HttpRequest, token: str) -> HttpResponse:
    """Show the form of an invite link; on POST, set the password. A GET uses up nothing."""
    answer = invites.find(token)
    problem = None
    if request.method == "POST" and isinstance(answer, User):
        first, second = (request.POST.get(name, "") for name in ("password1", "password2"))
        if first != second:
            problem = _TWICE
        elif len(first) > _LONGEST_PASSWORD:
            problem = _TOO_LONG
        else:
            accepted = invites.accept(tenant=DEFAULT_TENANT, token=token, password=first)
            if isinstance(accepted, User):
                return _entrance(request, {"done": accepted})
            is_weak = accepted.code is ProblemCode.INVALID_REQUEST
            problem, answer = (accepted, answer) if is_weak else (None, accepted)
    if isinstance(answer, Problem):
        return _entrance(request, {"ended": answer}, status=answer.status)
    context = {"user_name": answer.get_username(), "problem": problem}
    return _entrance(request, context, status=200 if problem is None else problem.status)


def _entrance(request: HttpRequest, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    answer = render(request, "account/invite.html", context, status=status)
    # The address is the secret: no other page may learn it. With `no-referrer` a browser would not say either
    # from which site the form comes, and the form would be refused.
    answer.headers["Referrer-Policy"] = "strict-origin"
    return answer


def _link_page(request: HttpRequest, answer: invites.Invite | Problem, *, back: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    link = request.build_absolute_uri(reverse("invite", args=[answer.token]))
    return render(request, "runtime/invite_link.html", {"invite": answer, "link": link})


def _answered(request: HttpRequest, answer: User | Problem, *, back: str, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, done.format(name=answer.get_username()))
    return redirect(back)


def _ended(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'} ended." if count else "There was no session to end."


def _roles(names: Collection[str]) -> list[Role] | None:
    """The roles of a form; None where one of them is not a role."""
    return [Role(name) for name in names] if {*names} <= {*Role} else None


def _unknown_role(request: HttpRequest, *, back: str) -> HttpResponse:
    problem = Problem(code=ProblemCode.INVALID_REQUEST, detail="Choose roles from the list.")
    return error_page.page(request, problem, back=back)
