"""Notes beside a flow, an escalation or an agent: a page of their own, and the part of other pages."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods

from audit import actors
from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import note_list, note_text, queries
from escalations.models import Escalation
from escalations.services import notes
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.core.views import addresses, error_page
from runtime.flows.models import Flow
from runtime.registry.models import Agent

BUSY = Problem(code=ProblemCode.BUSY, detail="The database is busy. Nothing was saved; send it again.")
reads_and_writes = require_http_methods(["GET", "HEAD", "POST"])


@dataclass(frozen=True, kw_only=True)
class NoteSubject:
    """What notes are about: its stream, its page, the address of its notes, and how one is written."""

    tenant: str
    stream: str
    about: str
    page_url: str
    notes_url: str
    write: Callable[..., Problem | None]


def flow_subject(tenant: str, dfid: UUID) -> NoteSubject:
    """The notes of a flow."""
    return NoteSubject(
        tenant=tenant,
        stream=str(dfid),
        about=f"Flow {dfid}",
        page_url=addresses.of_page("flow", dfid),
        notes_url=addresses.of_page("flow-notes", dfid),
        write=partial(notes.write_on_flow, tenant=tenant, dfid=dfid),
    )


def escalation_subject(escalation: Escalation) -> NoteSubject:
    """The notes of an escalation's flow, written beside the escalation."""
    tenant, pk = escalation.tenant, escalation.pk
    return NoteSubject(
        tenant=tenant,
        stream=str(escalation.flow_id),
        about=f"Escalation {pk}",
        page_url=addresses.of_page("escalation", pk),
        notes_url=addresses.of_page("escalation-notes", pk),
        write=partial(notes.write_on_escalation, tenant=tenant, escalation_id=pk),
    )


def agent_subject(tenant: str, agent_id: str) -> NoteSubject:
    """The notes of an agent."""
    return NoteSubject(
        tenant=tenant,
        stream=actors.agent(agent_id),
        about=f"Agent {agent_id}",
        page_url=addresses.of_page("agent", agent_id),
        notes_url=addresses.of_page("agent-notes", agent_id),
        write=partial(notes.write_on_agent, tenant=tenant, agent_id=agent_id),
    )


@reads_and_writes
@signed_in
def of_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Show the notes of a flow, or write one."""
    tenant = tenant_of(request.user)
    get_object_or_404(Flow.objects.of(tenant), dfid=dfid)
    return _serve(request, flow_subject(tenant, dfid))


@reads_and_writes
@signed_in
def of_escalation(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Show the notes of an escalation's flow, or write one."""
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return _serve(request, escalation_subject(escalation))


@reads_and_writes
@signed_in
def of_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the notes of an agent, or write one."""
    tenant = tenant_of(request.user)
    get_object_or_404(Agent.objects.of(tenant), agent_id=agent_id)
    return _serve(request, agent_subject(tenant, agent_id))


def shown(
    request: HttpRequest, subject: NoteSubject, *, problem: Problem | None = None, entered: str = ""
) -> dict[str, Any]:
    """The context of `_notes.html`; after a refusal with its message and what was entered."""
    return {
        "request": request,
        "subject": subject,
        "notes": note_list.list_of_stream(tenant=subject.tenant, stream=subject.stream),
        "may_write": may(request.user, Permission.WRITE_NOTES),
        "longest": note_text.LONGEST,
        "problem": problem,
        "entered": entered,
    }


def write(request: HttpRequest, put: Callable[..., Problem | None]) -> Problem | None:
    """Write what the form holds, as the signed-in person; a refusal is recorded.

    Raises:
        PermissionDenied: for a person whose roles do not write notes.
    """
    if not may(request.user, Permission.WRITE_NOTES):
        raise PermissionDenied
    try:
        problem = put(author=request.user, text=request.POST.get("text", ""))
    except transactions.BusyError:
        return BUSY
    if problem is not None:
        error_page.record(request, problem)
    return problem


def _serve(request: HttpRequest, subject: NoteSubject) -> HttpResponse:
    swaps = "HX-Request" in request.headers
    if request.method != "POST":
        template = "escalations/_note_list.html" if swaps else "escalations/notes.html"
        return render(request, template, shown(request, subject))
    problem = write(request, subject.write)
    if problem is None and not swaps:
        return HttpResponseRedirect(f"{subject.page_url}#notes")
    entered = "" if problem is None else request.POST.get("text", "")
    context = shown(request, subject, problem=problem, entered=entered)
    if swaps:
        # htmx does not insert responses with an error status.
        return render(request, "escalations/_notes.html", context)
    return render(request, "escalations/notes.html", context, status=problem.status if problem else 200)
