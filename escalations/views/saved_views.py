"""Save and delete a person's own views of the queue."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from audit.access.permissions import signed_in, tenant_of
from escalations import queue_filter
from escalations.services import saved_views
from escalations.views import queue_walk
from runtime.contracts.problem import Problem
from runtime.core.views import error_page


@require_POST
@signed_in
def save(request: HttpRequest) -> HttpResponse:
    """Save the filter in `query` under `name`, for the signed-in person alone."""
    user_pk = int(request.user.pk or 0)
    # Only what the queue reads is saved, so a link cannot carry anything else into the page.
    query = queue_filter.to_query(queue_filter.read_from(request.POST.get("query", ""), user_pk=user_pk))
    made = saved_views.save(
        tenant=tenant_of(request.user),
        user_pk=user_pk,
        name=" ".join(request.POST.get("name", "").split()),
        query=query,
    )
    address = queue_walk.queue_url(query)
    if isinstance(made, Problem):
        return error_page.page(request, made, back=address)
    messages.success(request, f"View saved: {made.name}.")
    return redirect(address)


@require_POST
@signed_in
def delete(request: HttpRequest, view_pk: int) -> HttpResponse:
    """Delete a view of one's own."""
    saved_views.delete(user_pk=int(request.user.pk or 0), view_pk=view_pk)
    return redirect("escalations")
