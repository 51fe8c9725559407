"""The evidence pack of a flow as a file."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from audit.packs import export
from runtime.flows.queries import flow_search
from runtime.maintenance.services import evidence_packs

_CONFLICT = 409


@require_safe
@signed_in
def download(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Return the pack, sealed up to the newest entries."""
    tenant = tenant_of(request.user)
    if flow_search.get_flow(tenant=tenant, dfid=dfid) is None:
        raise Http404
    try:
        pack = evidence_packs.make(tenant=tenant, dfid=dfid)
    except export.NotSealedError:
        context = {
            "status": _CONFLICT,
            "title": "No pack yet",
            "detail": "No signed checkpoint covers this flow yet, so a pack would prove nothing. Try again.",
            "href": reverse("flow", args=[dfid]),
            "action": "Back to the flow",
        }
        return render(request, "error.html", context, status=_CONFLICT)
    if pack is None:
        raise Http404
    answer = HttpResponse(pack, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="evidence-{dfid}.zip"'
    return answer
