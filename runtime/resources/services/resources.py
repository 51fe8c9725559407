"""Resources as they are configured: by a pack, or by a person. What is in use is never configured away."""

from datetime import datetime
from decimal import Decimal

from django.db.models import F

from audit import actors, events, ledger
from runtime.contracts import pack
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.kernel import units
from runtime.resources.models import Resource

LARGEST = 2**53 - 1


def in_use_words(row: Resource) -> str:
    """Why a capacity cannot be lowered under what is in use, as a sentence."""
    used = units.write(Decimal(row.reserved + row.committed), row.unit)
    return f"{row.name} has {used} in use, and the capacity cannot be set below that"


@transactions.retried
def set_capacity(*, tenant: str, name: str, capacity: int, actor: str) -> Resource | Problem:
    """Give a resource another capacity, by a person's word; a pack leaves it so."""
    row = Resource.objects.of(tenant).select_for_update().filter(name=name).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No resource has this name.")
    if not row.reserved + row.committed <= capacity <= LARGEST:
        return Problem(code=ProblemCode.CAPACITY_IN_USE, detail=f"{in_use_words(row)}.")
    if capacity == row.capacity:
        return row
    at = clock.now()
    _update(row, capacity=capacity, unit=row.unit, actor=actor, at=at)
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[_configured(row)])
    return row


def store(
    *, tenant: str, given: pack.PackResource, actor: str, at: datetime
) -> tuple[list[events.Event], str | None]:
    """A pack's resource in the caller's transaction: its entries, and a warning where it was left as it is.

    The caller has refused a capacity under what is in use; losing that race raises
    `transactions.ConcurrentUpdateError`.
    """
    row = Resource.objects.of(tenant).filter(name=given.name).first()
    if row is None:
        row = Resource.objects.create(
            tenant=tenant,
            name=given.name,
            unit=given.unit,
            capacity=given.capacity,
            configured_at=at,
            configured_by=actor,
        )
        return [_configured(row)], None
    if (row.capacity, row.unit) == (given.capacity, given.unit):
        return [], None
    if actors.is_user(row.configured_by):
        return [], f"the capacity of {row.name} was set by a person to {row.capacity}: left as it is"
    _update(row, capacity=given.capacity, unit=given.unit, actor=actor, at=at)
    return [_configured(row)], None


def _update(row: Resource, *, capacity: int, unit: str, actor: str, at: datetime) -> None:
    room = Resource.objects.filter(pk=row.pk).annotate(used=F("reserved") + F("committed"))
    changed = room.filter(used__lte=capacity).update(
        capacity=capacity, unit=unit, configured_at=at, configured_by=actor
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    row.capacity, row.unit, row.configured_at, row.configured_by = capacity, unit, at, actor


def _configured(row: Resource) -> events.ResourceConfigured:
    return events.ResourceConfigured(resource=row.name, capacity=row.capacity, unit=row.unit)
