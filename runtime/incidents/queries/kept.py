"""What is kept because an incident links it: whoever deletes old rows asks here first.

A link that was removed keeps nothing; an incident that is closed does.
"""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from runtime.contracts.incident import IncidentState, LinkKind
from runtime.incidents.models import IncidentLink


def linked_flows(*, tenant: str) -> "QuerySet[IncidentLink, UUID | None]":
    """The ids of all flows that an incident links, itself or by a record or an escalation of theirs.

    A query that can stand in the condition of another: `Flow.objects.exclude(pk__in=linked_flows(...))`.
    """
    rows = IncidentLink.objects.filter(incident__tenant=tenant, removed_at=None, flow__isnull=False)
    return rows.order_by().values_list("flow_id", flat=True).distinct()


def is_linked(dfid: UUID) -> bool:
    """Whether an incident links this flow, itself or by a record or an escalation of it."""
    return IncidentLink.objects.filter(flow_id=dfid, removed_at=None).exists()


def is_looked_into(dfid: UUID) -> bool:
    """Whether an incident that is not closed links this flow."""
    rows = IncidentLink.objects.filter(flow_id=dfid, removed_at=None)
    return rows.exclude(incident__state=IncidentState.CLOSED).exists()


def linked_among(dfids: Collection[UUID]) -> set[UUID]:
    """Those of the flows that an incident links."""
    rows = IncidentLink.objects.filter(flow_id__in=list(dfids), removed_at=None)
    return {dfid for dfid in rows.values_list("flow_id", flat=True) if dfid is not None}


def linked_records(*, tenant: str) -> "QuerySet[IncidentLink, str]":
    """The ids of all decision records that an incident links; their flows are among `linked_flows`."""
    rows = IncidentLink.objects.filter(incident__tenant=tenant, kind=LinkKind.RECORD, removed_at=None)
    return rows.order_by().values_list("ref", flat=True).distinct()
