"""What people do on the page of an incident: each a plain form that comes back to it."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from audit.access.permissions import require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.incident import IncidentState, LinkKind, Severity
from runtime.contracts.problem import Problem
from runtime.core.views import error_page
from runtime.core.views.forms import ReasonForm
from runtime.incidents.models import Incident
from runtime.incidents.services import incidents
from runtime.incidents.services.incidents import Wanted
from runtime.incidents.views import presenters
from runtime.incidents.views.forms import EditForm, LinkForm, MoveForm, NoteForm, TodoForm


@require_POST
@require(Permission.WORK_INCIDENTS)
def move(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Move it to another state."""
    form = MoveForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    to = IncidentState(form.cleaned_data["to"])
    return _done(
        request,
        incident_id,
        incidents.move(
            tenant=tenant_of(request.user),
            incident_id=incident_id,
            to=to,
            reason=form.cleaned_data["reason"],
            author=_author(request),
        ),
        said=f"The incident is {presenters.STATES[to].word.lower()} now.",
    )


@require_POST
@require(Permission.WORK_INCIDENTS)
def edit(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Change title, severity and lead."""
    form = EditForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    given = form.cleaned_data
    return _done(
        request,
        incident_id,
        incidents.edit(
            tenant=tenant_of(request.user),
            incident_id=incident_id,
            title=given["title"],
            severity=Severity(given["severity"]),
            lead=given["lead"],
            reason=given["reason"],
            author=_author(request),
        ),
        said="The incident was changed.",
    )


@require_POST
@require(Permission.WORK_INCIDENTS)
def link(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Link something else."""
    form = LinkForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    wanted = Wanted(LinkKind(form.cleaned_data["kind"]), form.cleaned_data["ref"])
    answer = incidents.link(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        wanted=wanted,
        author=_author(request),
    )
    return _done(request, incident_id, answer, said=f"{presenters.KINDS[wanted.kind]} linked.")


@require_POST
@require(Permission.WORK_INCIDENTS)
def unlink(request: HttpRequest, incident_id: UUID, link: int) -> HttpResponse:
    """Remove a link that was wrong."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    answer = incidents.unlink(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        link_pk=link,
        reason=form.cleaned_data["reason"],
        author=_author(request),
    )
    return _done(request, incident_id, answer, said="The link was removed.")


@require_POST
@require(Permission.WORK_INCIDENTS)
def note(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Write a note."""
    form = NoteForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    answer = incidents.note(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        text=form.cleaned_data["text"],
        author=_author(request),
    )
    return _done(request, incident_id, answer, said="The note was added.")


@require_POST
@require(Permission.WORK_INCIDENTS)
def add_action(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Add something to do."""
    form = TodoForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_page(incident_id))
    given = form.cleaned_data
    answer = incidents.add_action(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        text=given["text"],
        owner=given["owner"],
        due_on=given["due_on"],
        author=_author(request),
    )
    return _done(request, incident_id, answer, said="The action was added.")


@require_POST
@require(Permission.WORK_INCIDENTS)
def finish_action(request: HttpRequest, incident_id: UUID, action_id: UUID) -> HttpResponse:
    """Note that an action is done."""
    answer = incidents.finish_action(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        action_id=action_id,
        author=_author(request),
    )
    return _done(request, incident_id, answer, said="The action is done.")


def _done(
    request: HttpRequest, incident_id: UUID, answer: Incident | Problem | None, *, said: str
) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=_page(incident_id))
    messages.success(request, said)
    return redirect("incident", incident_id=incident_id)


def _author(request: HttpRequest) -> int:
    return request.user.pk or 0


def _page(incident_id: UUID) -> str:
    return reverse("incident", args=[incident_id])
