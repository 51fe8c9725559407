"""The page of the search over everything, and its part for the palette (Ctrl+K)."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from dir_console import search
from runtime.core import id_search
from runtime.core.views import labels, query_params
from runtime.flows.queries import id_lookups


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show what has the text in its name or id; with `part=palette` as options, with pages and actions."""
    text = query_params.text(request.GET.get("q", ""))
    found = search.find(tenant=tenant_of(request.user), text=text) if text else []
    if request.GET.get("part") == "palette":
        actions, pages = search.find_actions(request.user, text), search.find_pages(text)
        groups = [group for group in (pages, *found, actions) if group.hits]
        return render(request, "console/_palette.html", {"groups": groups, "text": text})
    pages = search.find_pages(text)
    context = {
        "text": text,
        "groups": [pages, *found] if text and pages.hits else found,
        "newest": labels.number(id_search.NEWEST),
        "least": id_search.LEAST_INSIDE,
        "newest_receipts": labels.number(id_lookups.NEWEST_RECEIPTS),
        "newest_calls": labels.number(id_lookups.NEWEST_CALLS),
        "least_name": search.LEAST_NAME,
    }
    return render(request, "console/search.html", context)
