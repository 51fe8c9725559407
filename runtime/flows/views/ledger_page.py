"""The newest ledger entries of all streams."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import signed_in, tenant_of
from audit.events import Kind
from audit.packs import export
from audit.sealing import proofs, witnesses
from runtime.core import clock, paging
from runtime.core.views import query_params
from runtime.flows.queries import activity
from runtime.flows.views import timeline
from runtime.registry.queries import people

PAGE = 50


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List entries newest first, by stream and kind; only rows for a live update (`HX-Request`)."""
    before = request.GET.get("before", "")
    kind = request.GET.get("kind", "") if request.GET.get("kind") in set(Kind) else ""
    stream = query_params.text(request.GET.get("stream", ""), longest=200)
    rows = activity.list_latest_entries(
        tenant=tenant_of(request.user),
        before=query_params.whole(before),
        stream=people.actor_of_name(stream),
        kind=kind,
        size=PAGE + 1,
    )
    page = paging.cut(rows, PAGE)
    context = {
        "lines": timeline.lines(page.rows, names=people.names_of([row.actor for row in page.rows])),
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="before",
            last=str(page.rows[-1].pk) if page.rows else "",
            order="newest first",
        ),
        "stream": stream,
        "kind": kind,
        "kinds": list(Kind),
        "filtered": bool(stream or kind),
        "paged": bool(before),
        "verifier_digest": canonical.digest(export.verifier()),
        **_checkpoint(),
    }
    return render(
        request, "audit/_ledger.html" if "HX-Request" in request.headers else "audit/ledger.html", context
    )


def _checkpoint() -> dict[str, Any]:
    newest, at = proofs.latest(), clock.now()
    held = [(report, report.is_late(at)) for report in witnesses.reports()]
    if newest is None:
        return {"witnesses": held}
    return {"checkpoint": newest.checkpoint, "root": newest.checkpoint.root.hex(), "witnesses": held}
