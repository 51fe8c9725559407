"""Help: the pages of docs/ inside the console, so that nobody has to leave it to read on."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in
from dir_console import handbook
from runtime.registry.queries import tour as preference


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the pages, and offer the tour to a person who has put it away."""
    context = {
        "groups": handbook.groups(),
        "is_tour_hidden": preference.is_hidden(user_pk=request.user.pk or 0),
    }
    return render(request, "console/help.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, page: str) -> HttpResponse:
    """Show one page with its table of contents."""
    if page not in handbook.names():
        raise Http404
    return render(request, "console/help_page.html", {"page": handbook.get(page)})
