"""Memory in quarantine and in force: everyone sees it, an admin releases or discards what waits."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core import clock, given_reasons
from runtime.core.views import error_page
from runtime.core.views.forms import ReasonForm
from runtime.registry.services import separate_owners
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_layers
from runtime.state.services import memory
from runtime.state.views import memory_presenters


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the items in quarantine, oldest first, then what agents receive now and what was decided last."""
    tenant, at = tenant_of(request.user), clock.now()
    may_decide = may(request.user, Permission.MANAGE_MEMORY)
    barred: dict[int, str] = {}
    waiting = memory_layers.list_quarantined(tenant=tenant)
    if may_decide:
        writers = {row.writer_id: row.writer for row in waiting}
        for pk, writer in writers.items():
            answer = separate_owners.allow(
                agent=writer, actor=actor_of(request.user), at=at, task=memory.RELEASE
            )
            barred[pk] = answer.detail if isinstance(answer, Problem) else ""
    context = {
        "items": [
            memory_presenters.shown(row, at=at) | {"barred": barred.get(row.writer_id, "")} for row in waiting
        ],
        "active": [
            memory_presenters.shown(row, at=at) for row in memory_layers.list_active(tenant=tenant, at=at)
        ],
        "decided": [memory_presenters.shown(row, at=at) for row in memory_layers.list_decided(tenant=tenant)],
        "may_decide": may_decide,
        "longest": given_reasons.LONGEST,
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_memory.html" if swapped else "runtime/memory.html", context)


@require_POST
@require(Permission.MANAGE_MEMORY)
def release(request: HttpRequest, item: int) -> HttpResponse:
    """Release an item, so that contexts can include it."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("memory"))
    answer = memory.release(
        tenant=tenant_of(request.user),
        pk=item,
        digest=request.POST.get("digest", ""),
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    return _answer(request, answer, "is released: agents with access to its scope can read it.")


@require_POST
@require(Permission.MANAGE_MEMORY)
def discard(request: HttpRequest, item: int) -> HttpResponse:
    """Discard an item: no context ever includes it."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("memory"))
    answer = memory.discard(
        tenant=tenant_of(request.user),
        pk=item,
        digest=request.POST.get("digest", ""),
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    return _answer(request, answer, "is discarded permanently.")


def _answer(request: HttpRequest, answer: MemoryItem | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("memory"))
    messages.success(request, f"{answer.scope}/{answer.key} {done}")
    return redirect("memory")
