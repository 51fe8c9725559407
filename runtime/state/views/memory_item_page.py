"""One version of memory: its source, why it waited, who received it, and what became of those flows."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import actor_of, may, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core import clock, given_reasons, mismatches
from runtime.core.views import labels
from runtime.guards.queries import memory_reach
from runtime.guards.queries.memory_reach import Touched
from runtime.guards.views import review_presenters
from runtime.registry.queries import people
from runtime.registry.services import separate_owners
from runtime.state.queries import memory_entries, memory_layers
from runtime.state.services import memory
from runtime.state.views import memory_presenters


@require_safe
@signed_in
def detail(request: HttpRequest, item: int) -> HttpResponse:
    """Show an item with its versions and its blast radius; `?before=` searches older contexts and reads."""
    row = memory_layers.get_by_pk(tenant=tenant_of(request.user), pk=item)
    if row is None:
        raise Http404
    mismatches.require(memory_entries.compare_written(row))
    at, before = clock.now(), read_place(request.GET.get("before", ""))
    reach = memory_reach.find(item=row, before=before)
    may_decide = may(request.user, Permission.MANAGE_MEMORY)
    names = people.names_of([row.released_by, row.discarded_by])
    barred = ""
    if may_decide and row.quarantined:
        answer = separate_owners.allow(
            agent=row.writer, actor=actor_of(request.user), at=at, task=memory.RELEASE
        )
        barred = answer.detail if isinstance(answer, Problem) else ""
    versions = memory_layers.list_versions(tenant=row.tenant, scope=row.scope, key=row.key)
    shown = memory_presenters.shown(row, at=at)
    context = shown | {
        "item": shown | {"barred": barred},
        "source_labels": memory_layers.labels_of(row),
        "decided_by": labels.actor_words(row.released_by or row.discarded_by, names),
        "decision_reason": labels.visible_lines(row.decision_reason),
        "versions": [memory_presenters.shown(version, at=at) for version in versions],
        "reach": reach,
        "flows": [_touched(found) for found in reach.flows],
        "before": write_place(before),
        "older": write_place(reach.older),
        "most": memory_reach.MOST_FLOWS,
        "may_decide": may_decide,
        "longest": given_reasons.LONGEST,
    }
    return render(request, "runtime/memory_item.html", context)


def read_place(text: str) -> tuple[int, int] | None:
    """Where a search goes on, of an address or a form; None for the newest, and for anything else."""
    context, _, entry = text.partition("-")
    parts = [part for part in (context, entry) if part.isascii() and part.isdigit() and len(part) <= _DIGITS]
    return (int(parts[0]), int(parts[1])) if len(parts) == len((context, entry)) else None


def write_place(place: tuple[int, int] | None) -> str:
    """The same as text; empty for None."""
    return "" if place is None else f"{place[0]}-{place[1]}"


_DIGITS = 18


def _touched(found: Touched) -> dict[str, Any]:
    review = found.review
    return {
        "found": found,
        "served": found.served,
        "flow": found.flow,
        "state": labels.badge(labels.FLOW_STATES, found.flow.state),
        "verdict": labels.badge(labels.VERDICTS, found.verdict) if found.verdict else None,
        "outcome": labels.badge(labels.OUTCOMES, found.outcome) if found.outcome else None,
        "contexts": found.served.contexts[:3],
        "more": max(0, len(found.served.contexts) - 3),
        "review": review,
        "mark": None if review is None else _mark(review.state, review.result),
    }


def _mark(state: str, result: str) -> labels.Badge:
    table = review_presenters.RESULTS if result else review_presenters.REVIEW_STATES
    return labels.badge(table, result or state)
