"""Reservations, newest first: the open ones, or how the others ended."""

from django.db.models import Q

from runtime.contracts import states
from runtime.core import paging
from runtime.resources.models import Reservation, Resource

PAGE = 50
MOST_RESOURCES = 200


def list_reservations(
    *, tenant: str, resource: str, standing: bool, before: int | None
) -> paging.Page[Reservation]:
    """One page of a resource's reservations, or of all resources where the name is empty."""
    rows = Reservation.objects.filter(resource__tenant=tenant)
    stands = Q(state__in=states.STANDING)
    rows = rows.filter(stands if standing else ~stands)
    if resource:
        rows = rows.filter(resource__name=resource)
    if before is not None:
        rows = rows.filter(id__lt=before)
    rows = rows.select_related("resource", "flow__agent").order_by("-id")
    return paging.cut(list(rows[: PAGE + 1]), PAGE)


def list_names(*, tenant: str) -> list[str]:
    """The resources by name, for the filter; bounded."""
    rows = Resource.objects.of(tenant).order_by("name")
    return list(rows.values_list("name", flat=True)[:MOST_RESOURCES])
