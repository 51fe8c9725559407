"""The post-mortem of an incident: its form with what the entries tell already, to print, and as Markdown."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from audit.access.permissions import require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.incident import NEEDS_POST_MORTEM
from runtime.contracts.post_mortem import LONGEST_PART, PostMortemBody
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.views import error_page, labels, query_params
from runtime.flows.views.timeline import TimelineLine
from runtime.incidents.models import Incident
from runtime.incidents.queries import incident_detail
from runtime.incidents.queries.incident_detail import PostMortemShown
from runtime.incidents.services import post_mortems
from runtime.incidents.views import incident_pages, markdown
from runtime.incidents.views.forms import PostMortemForm
from runtime.registry.queries import people

_HINTS = {
    "summary": "What happened, in three sentences that somebody outside the team understands.",
    "impact": "Who was affected, for how long, and how much.",
    "timeline": "Taken from the ledger for the first version; shorten it to what matters.",
    "root_causes": "Why it could happen. Causes, not people.",
    "went_well": "What helped.",
    "went_badly": "What made it worse, or took too long.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.WORK_INCIDENTS)
def edit(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Write the next version."""
    incident = incident_pages.incident_or_404(request, incident_id)
    if incident.closed_at is not None:
        problem = Problem(
            code=ProblemCode.INCIDENT_NOT_IN_THAT_STATE,
            detail="This incident is closed, and its post-mortem with it. Add a note instead.",
        )
        return error_page.page(request, problem, back=reverse("incident", args=[incident_id]))
    if request.method != "POST":
        return _form_page(request, incident)
    form = PostMortemForm(request.POST)
    if not form.is_valid():
        return _form_page(request, incident, form=form, problem=form.problem())
    answer = post_mortems.save(
        tenant=tenant_of(request.user),
        incident_id=incident_id,
        body=form.body(),
        after_version=form.cleaned_data["seen"],
        author=request.user.pk or 0,
    )
    if isinstance(answer, Problem):
        return _form_page(request, incident, form=form, problem=answer)
    messages.success(request, f"Version {answer.version} of the post-mortem was saved.")
    return redirect("post-mortem", incident_id=incident_id)


@require_safe
@signed_in
def show(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Show a version to read and to print: the signed one, else the newest, or the one asked for."""
    incident = incident_pages.incident_or_404(request, incident_id)
    asked = query_params.whole(request.GET.get("version", ""))
    found = incident_detail.get_post_mortem(incident, version=asked)
    if found is None and asked is not None:
        raise Http404
    context = incident_pages.shown(incident) | {
        "found": found,
        "parts": _parts(found.body) if found is not None and found.body is not None else (),
        "signed_by": _name(found.row.signed_by) if found is not None else "",
        "is_needed": incident.severity in NEEDS_POST_MORTEM,
    }
    return render(request, "runtime/post_mortem.html", context)


@require_safe
@signed_in
def download(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """The same as a Markdown file."""
    incident = incident_pages.incident_or_404(request, incident_id)
    found = incident_detail.get_post_mortem(
        incident, version=query_params.whole(request.GET.get("version", ""))
    )
    if found is None or found.body is None:
        raise Http404
    text = markdown.write(
        title=incident.title,
        facts=_facts(incident, found),
        body=found.body,
        actions=[
            (item.words, item.row.owner.get_username(), item.row.due_on, item.row.done_at is not None)
            for item in incident_detail.list_actions(incident)
        ],
    )
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="post-mortem-{incident.pk}.md"'
    return response


def _form_page(
    request: HttpRequest,
    incident: Incident,
    *,
    form: PostMortemForm | None = None,
    problem: Problem | None = None,
) -> HttpResponse:
    found = incident_detail.get_post_mortem(incident)
    context = incident_pages.shown(incident)
    body = found.body if found is not None and found.body is not None else PostMortemBody()
    if found is None:
        body = PostMortemBody(timeline=_told(context["lines"]))
    # Of a form that was refused the words are shown, and beside them what was saved meanwhile.
    held: dict[str, Any] = body.model_dump() if form is None else request.POST.dict()
    is_changed = problem is not None and problem.code is ProblemCode.POST_MORTEM_CHANGED
    context |= {
        "problem": problem,
        "seen": found.row.version if found is not None else 0,
        "fields": [(name, word, _HINTS[name], held.get(name, "")) for name, word in markdown.PARTS],
        "longest": LONGEST_PART,
        "saved": _parts(body) if is_changed else (),
        "is_needed": incident.severity in NEEDS_POST_MORTEM,
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/post_mortem_form.html", context, status=status)


def _told(lines: list[TimelineLine]) -> str:
    told = [f"{line.at:%Y-%m-%d %H:%M:%S} UTC  {line.title}: {line.summary} ({line.actor})" for line in lines]
    text = "\n".join(told)
    return text if len(text) <= LONGEST_PART else text[: LONGEST_PART - 1].rpartition("\n")[0]


def _parts(body: PostMortemBody) -> list[tuple[str, str]]:
    return [(word, labels.visible_lines(getattr(body, name))) for name, word in markdown.PARTS]


def _facts(incident: Incident, found: PostMortemShown) -> list[tuple[str, str]]:
    row = incident_pages.row(incident)
    facts = [
        ("Incident", str(incident.pk)),
        ("Severity", incident.severity),
        ("State", row["state"].word),
        ("Lead", row["lead"] or "nobody"),
        ("Opened", f"{incident.opened_at:%Y-%m-%d %H:%M:%S} UTC"),
    ]
    for name, at in (
        ("Mitigated", incident.mitigated_at),
        ("Resolved", incident.resolved_at),
        ("Closed", incident.closed_at),
    ):
        if at is not None:
            facts.append((name, f"{at:%Y-%m-%d %H:%M:%S} UTC"))
    signed = f", signed off by {_name(found.row.signed_by)}" if found.row.signed_at else ", not signed off"
    return [*facts, ("Version", f"{found.row.version}{signed}")]


def _name(actor: str) -> str:
    return labels.actor_words(actor, people.names_of([actor])) if actor else ""
