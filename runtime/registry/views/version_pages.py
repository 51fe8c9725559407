"""What the pages of manifests and policy kinds share: the forms that decide."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from audit.access.permissions import actor_of, may
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page
from runtime.registry.models import Manifest, PolicyKind
from runtime.registry.services import dual_control


def activate(
    request: HttpRequest, work: Callable[..., Manifest | PolicyKind | Problem], *, page: str, done: str
) -> HttpResponse:
    """Activate a version in place of the one that the page showed as active."""
    answer = work(
        seen_active=request.POST.get("seen_active", ""),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request.user),
    )
    return _answered(request, answer, page=page, done=done)


def discard(
    request: HttpRequest, work: Callable[..., Manifest | PolicyKind | Problem], *, page: str, done: str
) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    answer = work(reason=request.POST.get("reason", ""), actor=actor_of(request.user))
    return _answered(request, answer, page=page, done=done)


def permissions(request: HttpRequest, approved: dual_control.Approved | Problem) -> dict[str, Any]:
    """Return whether the forms are offered, and why the button is disabled."""
    return {
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
        "why_not": approved.detail if isinstance(approved, Problem) else "",
        "is_solo": not isinstance(approved, Problem) and approved.solo,
    }


def _answered(
    request: HttpRequest, answer: Manifest | PolicyKind | Problem, *, page: str, done: str
) -> HttpResponse:
    if isinstance(answer, Problem):
        if answer.status == HTTPStatus.NOT_FOUND:
            raise Http404
        return error_page.page(request, answer, back=page)
    messages.success(request, done)
    return redirect(page)
