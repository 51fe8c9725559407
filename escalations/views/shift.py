"""The page of a shift: what is open, what is mine, what was decided, what to know; and handing it over."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit import actors
from audit.access.permissions import may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from escalations import contracts, note_list, note_text, presenters, queries, shift_report
from escalations.services import notes as note_services
from escalations.views import notes
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.core.views import labels, query_params
from runtime.flows.views import timeline
from runtime.registry.queries import people

HOURS = (4, 8, 12, 24)
DEFAULT_HOURS = 8
LONGEST = timedelta(days=7)
MOST_HANDOVERS = 3
# Whoever comes back after a day off still finds the last handover.
HANDOVERS_WITHIN = timedelta(days=3)
MOST_MENTIONS = 20
TAKEN_BACK = labels.Badge("idle", "undo", "Taken back")


@require_safe
@signed_in
def page(request: HttpRequest) -> HttpResponse:
    """Show the shift."""
    return _page(request)


@require_POST
@require(Permission.WRITE_NOTES)
def hand_over(request: HttpRequest) -> HttpResponse:
    """Write the note for whoever works next."""
    problem = notes.write(request, partial(note_services.hand_over_shift, tenant=tenant_of(request.user)))
    if problem is not None:
        return _page(request, problem=problem, entered=request.POST.get("text", ""))
    messages.success(request, "Handed over. Your note is at the top of this page.")
    return redirect("shift")


def _page(request: HttpRequest, *, problem: Problem | None = None, entered: str = "") -> HttpResponse:
    tenant, now, me = tenant_of(request.user), clock.now(), request.user.pk or 0
    hours, since = _since(request, now)
    handovers = note_list.list_of_stream(
        tenant=tenant, stream=actors.SYSTEM, kinds=(Kind.SHIFT_HANDED_OVER,), most=MOST_HANDOVERS
    )
    context = {
        "now": now,
        "since": since,
        "hours": hours,
        "hours_offered": HOURS,
        "handovers": [note for note in handovers.notes if note.at >= now - HANDOVERS_WITHIN],
        **_open(tenant, now, me),
        **_mine(tenant, now, me),
        "mentions": [
            {"note": note, "url": _url_of(note)}
            for note in note_list.list_mentions(tenant=tenant, user_pk=me, since=since, most=MOST_MENTIONS)
            if note not in handovers.notes
        ],
        **_decided(tenant, since),
        **_noteworthy(tenant, since),
        "may_write": may(request.user, Permission.WRITE_NOTES),
        "longest": note_text.LONGEST,
        "problem": problem,
        "entered": entered,
    }
    return render(
        request, "escalations/shift.html", context, status=200 if problem is None else problem.status
    )


def _since(request: HttpRequest, now: datetime) -> tuple[int | None, datetime]:
    """The beginning of the shift: `since=` as a moment, or `hours=` before now; a week ago at most."""
    asked = query_params.moment(request.GET.get("since", ""))
    if asked is not None:
        return None, min(max(asked, now - LONGEST), now)
    hours = query_params.whole(request.GET.get("hours", ""))
    hours = hours if hours in HOURS else DEFAULT_HOURS
    return hours, now - timedelta(hours=hours)


def _open(tenant: str, now: datetime, me: int) -> dict[str, Any]:
    found = shift_report.list_open(tenant=tenant)
    return {
        "open_rows": _rows(tenant, found.rows, now, me),
    }


def _mine(tenant: str, now: datetime, me: int) -> dict[str, Any]:
    claimed = shift_report.list_claimed(tenant=tenant, user_pk=me, now=now)
    handed = note_list.list_handed_to(tenant=tenant, user_pk=me, most=shift_report.MOST_MINE)
    held = shift_report.list_escalations(
        tenant=tenant, ids={note.escalation_id for note in handed if note.escalation_id}
    )
    rows = {row.id: row for row in _rows(tenant, list(held.values()), now, me)}
    return {
        "claimed": _rows(tenant, claimed, now, me),
        "handed": [
            {"note": note, "row": rows[str(note.escalation_id)]}
            for note in handed
            if str(note.escalation_id) in rows
        ],
    }


def _decided(tenant: str, since: datetime) -> dict[str, Any]:
    found = shift_report.list_decided(tenant=tenant, since=since)
    escalations = [item.escalation for item in found.rows if item.escalation is not None]
    evidence = queries.get_evidence(tenant=tenant, escalations=escalations)
    names = people.names_of([item.actor for item in found.rows])
    return {
        "decided_more": found.more,
        "decided": [
            {
                "at": item.at,
                "who": labels.actor_words(item.actor, names),
                "badge": TAKEN_BACK
                if item.was_taken_back
                else labels.badge(presenters.RESOLUTIONS, item.action),
                "escalation": item.escalation,
                "effect": presenters.segments(evidence[item.escalation.pk])
                if item.escalation is not None and item.escalation.pk in evidence
                else [],
                "outcome": _outcome(item),
            }
            for item in found.rows
        ],
    }


def _outcome(item: shift_report.Decided) -> labels.Badge | None:
    """What became of it: the outcome of the call, or the state of the flow until there is one."""
    if item.was_taken_back or item.escalation is None:
        return None
    if item.outcome:
        return labels.badge(labels.OUTCOMES, item.outcome)
    return labels.badge(labels.FLOW_STATES, item.escalation.flow.state)


def _noteworthy(tenant: str, since: datetime) -> dict[str, Any]:
    found = shift_report.list_noteworthy(tenant=tenant, since=since)
    about = [query_params.uuid(str(entry.payload.get("escalation_id"))) for entry in found.rows]
    rows = shift_report.list_escalations(tenant=tenant, ids={pk for pk in about if pk is not None})
    trouble = shift_report.list_trouble(tenant=tenant, since=since)
    evidence = queries.get_evidence(tenant=tenant, escalations=[*rows.values(), *trouble])
    effects = {pk: presenters.segments(shown) for pk, shown in evidence.items()}
    lines = timeline.lines(found.rows, names=people.names_of([entry.actor for entry in found.rows]))
    return {
        "lines": [
            {
                "line": line,
                "escalation_id": pk if pk in rows else None,
                "effect": effects.get(pk) if pk else None,
            }
            for line, pk in zip(lines, about, strict=True)
        ],
        "lines_more": found.more,
        "trouble": [
            {
                "row": row,
                "is_silent": row.family == contracts.Family.AGENT,
                "effect": effects.get(row.pk),
            }
            for row in trouble
        ],
    }


def _rows(tenant: str, escalations: Any, now: datetime, me: int) -> list[presenters.QueueRow]:
    evidence = queries.get_evidence(tenant=tenant, escalations=escalations)
    return presenters.rows(escalations=escalations, evidence=evidence, now=now, user_pk=me)


def _url_of(note: note_list.NoteShown) -> str:
    """The page on which a note stands."""
    if note.escalation_id is not None:
        return reverse("escalation", args=[note.escalation_id])
    if note.dfid is not None:
        return reverse("flow", args=[note.dfid])
    return reverse("agent", args=[note.agent_id]) if note.agent_id else reverse("shift")
