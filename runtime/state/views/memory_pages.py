"""Memory in quarantine: everyone sees it, an admin releases or discards it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page, labels
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_layers
from runtime.state.services import memory


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the items in quarantine, oldest first, with their source."""
    context = {
        "items": [
            {
                "row": row,
                "value": labels.stored_value(row.value),
                "agent_id": row.writer.agent_id,
            }
            for row in memory_layers.list_quarantined(tenant=tenant_of(request.user))
        ],
        "may_decide": may(request.user, Permission.MANAGE_MEMORY),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_memory.html" if swapped else "runtime/memory.html", context)


@require_POST
@require(Permission.MANAGE_MEMORY)
def release(request: HttpRequest, item: int) -> HttpResponse:
    """Release an item, so that contexts can include it."""
    answer = memory.release(tenant=tenant_of(request.user), pk=item, actor=actor_of(request.user))
    return _answer(request, answer, "is released: agents with access to its scope can read it.")


@require_POST
@require(Permission.MANAGE_MEMORY)
def discard(request: HttpRequest, item: int) -> HttpResponse:
    """Discard an item: no context ever includes it."""
    answer = memory.discard(tenant=tenant_of(request.user), pk=item, actor=actor_of(request.user))
    return _answer(request, answer, "is discarded permanently.")


def _answer(request: HttpRequest, answer: MemoryItem | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("memory"))
    messages.success(request, f"{answer.scope}/{answer.key} {done}")
    return redirect("memory")
