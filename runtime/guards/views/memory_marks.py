"""One action of an admin: mark every flow that received an item of memory for review."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page
from runtime.core.views.forms import ReasonForm
from runtime.guards.services import memory_reviews
from runtime.state.views import memory_item_page


@require_POST
@require(Permission.MANAGE_MEMORY)
def mark(request: HttpRequest, item: int) -> HttpResponse:
    """Mark the flows that the page of the item shows; those that are marked already stay as they are."""
    back = reverse("memory-item", args=[item])
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    answer = memory_reviews.request(
        tenant=tenant_of(request.user),
        pk=item,
        digest=request.POST.get("digest", ""),
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
        before=memory_item_page.read_place(request.POST.get("before", "")),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    words = f"{answer.marked} flows are marked for review. Nothing was stopped or undone."
    messages.success(request, words + (f" {answer.left} had nothing to mark." if answer.left else ""))
    return redirect(back)
