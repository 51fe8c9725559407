"""The pages of incidents: the list, a new one, and one with its timeline, links, notes and people."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from audit import actors
from audit.access.permissions import may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.live.topics import Topic
from runtime.contracts.incident import LIVE, IncidentState, LinkKind, Severity
from runtime.contracts.problem import Problem
from runtime.core import clock, mismatches, paging
from runtime.core.views import labels, query_params
from runtime.flows.views import timeline
from runtime.incidents.models import Incident, IncidentLink
from runtime.incidents.queries import incident_detail, incident_list, leads, rule_list
from runtime.incidents.queries.incident_list import IncidentFilter
from runtime.incidents.services import incidents, texts
from runtime.incidents.views import presenters
from runtime.incidents.views.forms import LINK_FIELDS, OpenForm, wanted_links
from runtime.kernel import incident_moves
from runtime.registry.queries import people

NOBODY = "none"
UNCLOSED = "unclosed"
LIVE_ONLY = "live"
AGES: Mapping[str, tuple[str, timedelta]] = {
    "hour": ("more than an hour", timedelta(hours=1)),
    "day": ("more than a day", timedelta(days=1)),
    "week": ("more than a week", timedelta(days=7)),
}
_GROUPS: Mapping[str, tuple[str, Sequence[str]]] = {
    UNCLOSED: ("Not closed", incident_list.UNCLOSED),
    LIVE_ONLY: ("Open or mitigated", LIVE),
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List incidents, the newest first; the address holds the filters."""
    tenant, asked = tenant_of(request.user), request.GET
    after = query_params.uuid(asked.get("after", ""))
    page = incident_list.list_page(tenant=tenant, wanted=read_filter(asked), after=after)
    context: dict[str, Any] = {
        "rows": [row(incident) for incident in page.rows],
        "pager": paging.pager(
            page=page,
            query=asked,
            key="after",
            last=str(page.rows[-1].pk) if page.rows else "",
            order="newest first",
        ),
        "filtered": any(asked.get(name) for name in ("state", "severity", "lead", "age", "q")),
    }
    if "HX-Request" in request.headers:
        return render(request, "runtime/_incidents.html", context)
    context |= {
        "asked": {name: asked.get(name, "") for name in ("state", "severity", "lead", "age", "q")},
        "states": [
            *((value, word) for value, (word, _) in _GROUPS.items()),
            *((state.value, presenters.STATES[state].word) for state in IncidentState),
        ],
        "severities": [(value.value, presenters.SEVERITIES[value].title) for value in Severity],
        "people": [(NOBODY, "Nobody"), *((str(pk), name) for pk, name in leads.list_people())],
        "ages": [(value, words) for value, (words, _) in AGES.items()],
        "paged": after is not None,
        "topic": Topic.INCIDENTS,
        "may_open": may(request.user, Permission.WORK_INCIDENTS),
        "has_rule": rule_list.any_rule(tenant=tenant),
    }
    return render(request, "runtime/incidents.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.WORK_INCIDENTS)
def new(request: HttpRequest) -> HttpResponse:
    """Open an incident; the address or the form names what it links."""
    if request.method != "POST":
        return _new_page(request, OpenForm(initial={"lead": request.user.pk}), request.GET)
    form = OpenForm(request.POST)
    if not form.is_valid():
        return _new_page(request, form, request.POST, problem=form.problem())
    given = form.cleaned_data
    answer = incidents.open_incident(
        tenant=tenant_of(request.user),
        title=given["title"],
        severity=Severity(given["severity"]),
        author=request.user.pk or 0,
        lead=given["lead"],
        links=wanted_links(request.POST),
        note=given["note"],
    )
    if isinstance(answer, Problem):
        return _new_page(request, form, request.POST, problem=answer)
    messages.success(request, f"{answer.severity} is open: {labels.visible_lines(answer.title)}")
    return redirect("incident", incident_id=answer.pk)


@require_safe
@signed_in
def detail(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Show an incident: where it stands, what it links, what happened, what people wrote and do."""
    incident = incident_or_404(request, incident_id)
    context = shown(incident) | {
        "may_work": may(request.user, Permission.WORK_INCIDENTS),
        "part": request.GET.get("part", ""),
    }
    if "HX-Request" in request.headers:
        part = "_incident_timeline" if request.GET.get("part") == "timeline" else "_incident_head"
        return render(request, f"runtime/{part}.html", context)
    context |= {
        "moves": [
            (to.value, *presenters.MOVES[to]) for to in incident_moves.MOVES[IncidentState(incident.state)]
        ],
        "severities": [(value.value, presenters.SEVERITIES[value].title) for value in Severity],
        "people": leads.list_people(),
        "kinds": [(kind.value, presenters.KINDS[kind]) for kind in LinkKind],
        "longest_note": texts.LONGEST_NOTE,
        "longest_action": texts.LONGEST_ACTION,
        "notes": incident_detail.list_notes(incident),
    }
    return render(request, "runtime/incident.html", context)


def incident_or_404(request: HttpRequest, incident_id: UUID) -> Incident:
    """The incident, as it was recorded.

    Raises:
        mismatches.TamperedError: where its row is not what its entries say.
    """
    incident = incident_detail.get(tenant=tenant_of(request.user), incident_id=incident_id)
    if incident is None:
        raise Http404
    mismatches.require(*incident_detail.compare(incident))
    return incident


def shown(incident: Incident) -> dict[str, Any]:
    """All that the page and the printed post-mortem show of an incident."""
    links = incident_detail.list_links(incident)
    entries, has_older = incident_detail.list_entries(incident, links)
    actions = incident_detail.list_actions(incident)
    names = people.names_of(
        [
            incident.opened_by,
            *(entry.actor for entry in entries),
            *(link.ref for link in links),
            *(link.linked_by for link in links),
        ]
    )
    return {
        "incident": incident,
        "row": row(incident),
        "stream": actors.incident(incident.pk),
        "is_closed": incident.state == IncidentState.CLOSED,
        "opened_by": labels.actor_words(incident.opened_by, names),
        "links": [presenters.link(link, names) for link in links],
        "lines": timeline.lines(entries, names=names),
        "has_older": has_older,
        "actions": actions,
        "open_actions": sum(action.row.done_at is None for action in actions),
        "today": clock.now().date(),
        "involved": _involved(incident, links, names),
        "post_mortems": incident_detail.list_post_mortems(incident),
    }


def row(incident: Incident) -> dict[str, Any]:
    """A line of the list."""
    return {
        "incident": incident,
        "url": reverse("incident", args=[incident.pk]),
        "title": labels.visible_lines(incident.title),
        "state": labels.badge(presenters.STATES, incident.state),
        "severity": labels.badge(presenters.SEVERITIES, incident.severity),
        "lead": presenters.lead(incident),
        "by_rule": incident.rule_name,
    }


def read_filter(given: QueryDict) -> IncidentFilter:
    """The filter of an address; what cannot be read asks nothing."""
    state, severity, lead = (given.get(name, "") for name in ("state", "severity", "lead"))
    states: Sequence[str] = _GROUPS[state][1] if state in _GROUPS else ()
    if state in IncidentState.values():
        states = (state,)
    age = AGES.get(given.get("age", ""))
    return IncidentFilter(
        states=states,
        severity=severity if severity in Severity.values() else "",
        lead=0 if lead == NOBODY else query_params.whole(lead),
        text=query_params.text(given.get("q", "")).replace("\x00", ""),
        opened_before=None if age is None else clock.now() - age[1],
    )


def _involved(incident: Incident, links: Sequence[IncidentLink], names: Mapping[str, str]) -> list[str]:
    """The people who are linked, or have opened it, each once."""
    linked = [link.ref for link in links if link.kind == LinkKind.PERSON]
    actor = [incident.opened_by] if actors.is_user(incident.opened_by) else []
    lead = [presenters.lead(incident)] if incident.lead is not None else []
    return list(dict.fromkeys([*lead, *(names.get(who, who) for who in (*actor, *linked))]))


def _new_page(
    request: HttpRequest, form: OpenForm, given: QueryDict, *, problem: Problem | None = None
) -> HttpResponse:
    wanted = wanted_links(given)
    held = form.data if form.is_bound else {"lead": str(request.user.pk), "severity": Severity.SEV3}
    context = {
        "problem": problem,
        "held": {name: held.get(name, "") for name in ("title", "severity", "lead", "note")},
        "wanted": [(LINK_FIELDS[item.kind], presenters.KINDS[item.kind], item.given) for item in wanted],
        "severities": [(value.value, presenters.SEVERITIES[value].title) for value in Severity],
        "people": [(str(pk), name) for pk, name in leads.list_people()],
        "longest_note": texts.LONGEST_NOTE,
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/incident_new.html", context, status=status)
