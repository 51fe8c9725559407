"""Reads of resources and reservations: for the gate, and for the sweeper."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django.db.models import QuerySet, Sum

from audit import statements
from runtime.contracts.facts import ResourceFacts
from runtime.contracts.states import STANDING, ReservationState
from runtime.resources.models import ComputeBudget, Reservation, Resource

if TYPE_CHECKING:
    from runtime.flows.models import Flow


def list_facts(*, flow: "Flow", rows: Iterable[Resource]) -> tuple[ResourceFacts, ...]:
    """Resources as the gate sees them: without what the flow itself holds of them."""
    own = {} if flow.is_new else dict(_HELD.rows(dfid=flow.pk))
    return tuple(
        ResourceFacts(
            name=row.name,
            unit=row.unit,
            capacity=row.capacity,
            reserved=row.reserved - own.get(row.pk, 0),
            committed=row.committed,
        )
        for row in rows
    )


def list_named(*, tenant: str, names: Collection[str]) -> list[Resource]:
    """The named resources of a tenant, by name."""
    return _NAMED.rows(tenant=tenant, names=sorted(names))


def list_standing(*, dfid: UUID) -> list[Reservation]:
    """What a flow holds, with its resources."""
    return _STANDING.rows(dfid=dfid)


def _held(*, dfid: UUID) -> QuerySet[Reservation, tuple[int, int]]:
    rows = Reservation.objects.filter(flow=dfid, state__in=STANDING).order_by()
    return rows.values_list("resource_id").annotate(held=Sum("amount"))


def _named(*, tenant: str, names: list[str]) -> QuerySet[Resource]:
    return Resource.objects.of(tenant).filter(name__in=names).order_by("name")


def _standing(*, dfid: UUID) -> QuerySet[Reservation]:
    return Reservation.objects.filter(flow=dfid, state__in=STANDING).select_related("resource")


_HELD: Final = statements.Read(_held)
_NAMED: Final = statements.Read(_named)
_STANDING: Final = statements.Read(_standing)


def list_lapsed(*, at: datetime, limit: int) -> list[UUID]:
    """Flows that hold a reservation whose lease ended before `at`, chosen without a lock."""
    rows = Reservation.objects.filter(state=ReservationState.HELD, lease_until__lt=at)
    return list(dict.fromkeys(rows.order_by("lease_until").values_list("flow_id", flat=True)[:limit]))


def list_overdue(*, at: datetime, states: Collection[str], limit: int) -> list[UUID]:
    """Flows in `states` whose compute budget has run out of time at `at`, chosen without a lock."""
    rows = ComputeBudget.objects.filter(ends_at__lte=at, flow__state__in=states)
    return list(rows.order_by("ends_at").values_list("flow_id", flat=True)[:limit])


def list_names(*, tenant: str) -> frozenset[str]:
    """The resources that claims of a policy kind may name."""
    return frozenset(Resource.objects.of(tenant).values_list("name", flat=True))
