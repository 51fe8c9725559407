"""The evidence pack of a flow: made beside the request with its progress, or at once as a file."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, signed_in, tenant_of
from audit.packs import export
from audit.packs.progress import Stage
from runtime.flows.queries import flow_search
from runtime.maintenance.services import evidence_packs, pack_jobs
from runtime.maintenance.services.pack_jobs import BusyError, Job, Place, State

_CONFLICT: Final = 409
STAGES: Final[Mapping[Stage, str]] = {
    Stage.SEALING: "Sealing what is not in the tree yet",
    Stage.ENTRIES: "Reading entries",
    Stage.PROOFS: "Proving entries",
    Stage.ROWS: "Collecting what they commit to",
    Stage.RECORDS: "Collecting decision records",
    Stage.REPORT: "Writing the report",
    Stage.FILES: "Packing files",
}
ENDS: Final[Mapping[State, str]] = {
    State.NOT_SEALED: "No signed checkpoint covers this flow yet, so a pack would prove nothing. Try again.",
    State.FAILED: "The pack could not be made. Try again; the log of the server says why.",
    State.LOST: "The server that was making it has ended. Start again.",
}


@require_safe
@signed_in
def verifier(request: HttpRequest) -> HttpResponse:
    """The offline verifier by itself, for who takes no program from the pack that it is to check."""
    response = HttpResponse(export.verifier(), content_type="text/x-python; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="verify.py"'
    return response


@require_safe
@signed_in
def download(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Return the pack, sealed up to the newest entries; with `?ready=1` the one made a moment ago."""
    place = _place(request, dfid)
    if "ready" in request.GET:
        ready = pack_jobs.take(place)
        if ready is not None:
            return _file(dfid, ready)
    try:
        with pack_jobs.alone(place):
            pack = evidence_packs.make(tenant=place.tenant, dfid=dfid)
    except BusyError:
        return _conflict(request, dfid, "A pack of this flow is being made for you. Wait until it is ready.")
    except export.NotSealedError:
        return _conflict(request, dfid, ENDS[State.NOT_SEALED])
    if pack is None:
        raise Http404
    return _file(dfid, pack)


@require_POST
@signed_in
def start(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Begin to make the pack and return its progress; without JavaScript, lead to the file."""
    place = _place(request, dfid)
    if "HX-Request" not in request.headers:
        return redirect("evidence-pack", dfid)
    return _progress(request, dfid, pack_jobs.start(place))


@require_safe
@signed_in
def progress(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Return how far the pack is, as a part of the flow's page."""
    return _progress(request, dfid, pack_jobs.find(_place(request, dfid)))


def _progress(request: HttpRequest, dfid: UUID, job: Job | None) -> HttpResponse:
    context: dict[str, Any] = {"dfid": dfid, "job": job}
    if job is not None:
        context |= {
            "is_running": job.state is State.RUNNING,
            "is_ready": job.state is State.READY,
            "stage": STAGES[job.stage],
            "size": filesizeformat(job.size),
            "why": ENDS.get(job.state, ""),
        }
    return render(request, "runtime/_pack_progress.html", context)


def _place(request: HttpRequest, dfid: UUID) -> Place:
    """Whose pack of which flow. Raises Http404 where there is no such flow."""
    tenant = tenant_of(request.user)
    if flow_search.get_flow(tenant=tenant, dfid=dfid) is None:
        raise Http404
    return Place(tenant, actor_of(request.user), dfid)


def _file(dfid: UUID, pack: bytes) -> HttpResponse:
    answer = HttpResponse(pack, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="evidence-{dfid}.zip"'
    return answer


def _conflict(request: HttpRequest, dfid: UUID, detail: str) -> HttpResponse:
    context = {
        "status": _CONFLICT,
        "title": "No pack yet",
        "detail": detail,
        "href": reverse("flow", args=[dfid]),
        "action": "Back to the flow",
    }
    return render(request, "error.html", context, status=_CONFLICT)
