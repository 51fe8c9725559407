"""Incidents for the list, the overview and the search."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet

from audit import statements
from runtime.contracts.incident import LIVE, IncidentState, LinkKind, Severity
from runtime.core import id_search, paging
from runtime.incidents.models import Incident

PAGE = 50
MOST_SHOWN = 5
# Whoever works on incidents looks at these: all that is not closed.
UNCLOSED = tuple(state.value for state in IncidentState if state is not IncidentState.CLOSED)


@dataclass(frozen=True, kw_only=True)
class IncidentFilter:
    """What is asked for; what is empty asks nothing. `lead` 0 asks for those that nobody leads."""

    states: Sequence[str] = ()
    severity: str = ""
    lead: int | None = None
    text: str = ""
    opened_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class OpenFigures:
    """How many incidents are open or mitigated, the worst severity among them, and since when the oldest."""

    count: int
    worst: str
    oldest_at: datetime | None


def list_page(
    *, tenant: str, wanted: IncidentFilter, after: UUID | None, size: int = PAGE
) -> paging.Page[Incident]:
    """The newest first."""
    rows = Incident.objects.of(tenant).filter(_condition(wanted)).select_related("lead")
    if after is not None:
        rows = rows.filter(pk__lt=after)
    return paging.cut(list(rows.order_by("-incident_id")[: size + 1]), size)


def figures(*, tenant: str) -> OpenFigures:
    """What the overview shows, in one query."""
    count, worst, oldest_at = _FIGURES.first(tenant=tenant) or (0, "", None)
    return OpenFigures(count, worst, oldest_at)


def _figures(*, tenant: str) -> "QuerySet[Incident, Any]":
    rows = Incident.objects.of(tenant).filter(state__in=LIVE)
    return statements.as_one(rows, count=Count("pk"), worst=Min("severity"), oldest_at=Min("opened_at"))


_FIGURES: Final = statements.Read(_figures)


def list_about(*, tenant: str, kind: LinkKind, ref: str) -> Sequence[Incident]:
    """The newest incidents that link something and are not closed."""
    return _ABOUT.rows(tenant=tenant, kind=kind, ref=ref)


def _about(*, tenant: str, kind: str, ref: str) -> "QuerySet[Incident]":
    rows = Incident.objects.of(tenant).filter(
        state__in=UNCLOSED, links__kind=kind, links__ref=ref, links__removed_at=None
    )
    return rows.order_by("-incident_id")[:MOST_SHOWN]


_ABOUT: Final = statements.Read(_about)


def find(*, tenant: str, text: str, size: int) -> Sequence[Incident]:
    """Incidents with the text in the title, or as a part of the id; the newest first."""
    rows = Incident.objects.of(tenant)
    return list(_having(rows, text).order_by("-incident_id")[:size])


def _having(rows: "QuerySet[Incident]", text: str) -> "QuerySet[Incident]":
    return rows.filter(Q(title__icontains=text) | id_search.having(rows, text))


def _condition(wanted: IncidentFilter) -> Q:
    asked = Q()
    if wanted.states:
        asked &= Q(state__in=list(wanted.states))
    if wanted.severity:
        asked &= Q(severity=Severity(wanted.severity))
    if wanted.lead is not None:
        asked &= Q(lead__isnull=True) if wanted.lead == 0 else Q(lead=wanted.lead)
    if wanted.text:
        asked &= Q(title__icontains=wanted.text)
    if wanted.opened_before is not None:
        asked &= Q(opened_at__lt=wanted.opened_before)
    return asked
