"""What the pages of manifests and policy kinds share: their editor, and the forms that decide."""

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
from runtime.registry.services.lint_results import LintResult
from runtime.registry.services.versioned_documents import Document, Row


def check_or_save(
    request: HttpRequest,
    *,
    check: Callable[[str], LintResult[Document]],
    save: Callable[[str], Row | Problem],
    show: Callable[..., HttpResponse],
    done: Callable[[Row], HttpResponse],
) -> HttpResponse:
    """Check the draft in the editor, or save it; `show` renders the editor with what the check found."""
    text = request.POST.get("document", "")
    if request.POST.get("action") != "save":
        return show(text=text, checked=check(text))
    answer = save(text)
    if isinstance(answer, Problem):
        return show(text=text, checked=check(text), status=answer.status)
    return done(answer)


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
