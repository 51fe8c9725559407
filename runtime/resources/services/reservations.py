"""Reservations: what an accepted proposal takes of a capacity, until its flow ends (DIR paper, 7; ADR 0010).

Every change of a capacity is one conditional UPDATE, resources in the order of names. The caller holds the
flow's lock and writes the entries that are returned; `journal` settles whatever a flow leaves behind.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet

from audit import events, statements
from runtime.contracts.reasons import Reason
from runtime.contracts.states import FlowState, ReservationState
from runtime.contracts.verdict import ResourceClaim
from runtime.core import ports, transactions
from runtime.resources.models import Reservation, Resource
from runtime.resources.queries import resource_facts

if TYPE_CHECKING:
    from runtime.flows.models import Flow, Intent, Proposal

# The reason of a release, where a person put another proposal in place of the one that held.
REPLACED = "REPLACED"


def reserve(
    *,
    flow: "Flow",
    proposal: "Proposal",
    claims: Sequence[ResourceClaim],
    resources: Iterable[Resource],
    at: datetime,
) -> list[events.Event]:
    """Take all claims of an accepted proposal or none. A flow holds the claims of one proposal at a time.

    `resources` are those that the claims name. What is left of them is asked anew as they are taken.

    Raises `transactions.ConcurrentUpdateError` where another flow was faster, here or when the resource is
    taken at the end of `statements.together`: the whole transaction is judged again.
    """
    if not claims:
        return []
    added = [] if flow.is_new else release(flow=flow, reason=REPLACED, at=at)
    rows = {row.name: row for row in resources}
    lease_until, held = at + timedelta(seconds=settings.DIR_RESERVATION_S), []
    for claim in sorted(claims, key=lambda one: one.resource):
        row = rows[claim.resource]
        # All flows that claim it wait for this row, so it is locked last, when the rest is written.
        _TAKEN.run_last(transactions.ConcurrentUpdateError, resource_pk=row.pk, amount=claim.amount)
        held.append(
            Reservation(
                resource=row,
                flow=flow,
                proposal=proposal,
                amount=claim.amount,
                lease_until=lease_until,
                reserved_at=at,
            )
        )
        added.append(events.ResourceReserved(resource=row.name, amount=claim.amount, lease_until=lease_until))
    statements.insert(held)
    return added


def pin(*, intent: "Intent", at: datetime) -> list[events.Event] | None:
    """Keep an intent's reservations without a lease, since its call begins; None where one is lost.

    A lease that had ended is taken again. On None nothing has changed.
    """
    rows = _sorted(_CLAIMED.rows(dfid=intent.flow_id, proposal=intent.proposal_id))
    lapsed = [row for row in rows if row.state == ReservationState.RELEASED]
    if not _take_all(lapsed):
        return None
    added: list[events.Event] = []
    for row in rows:
        if row.state != ReservationState.PINNED:
            again = row.state == ReservationState.RELEASED
            _change(row, ReservationState.PINNED, reason="", ended_at=None)
            added.append(events.ResourcePinned(resource=row.resource.name, amount=row.amount, again=again))
    return added


def release(*, flow: "Flow", reason: str, at: datetime) -> list[events.Event]:
    """What the flow holds is free again."""
    return _release(_standing(flow), reason=reason, at=at)


def release_lapsed(*, flow: "Flow", at: datetime) -> list[events.Event]:
    """What the flow holds on a lease that has ended is free again; its claim may take it once more."""
    lapsed = [row for row in _standing(flow) if row.lease_until is not None and row.lease_until < at]
    return _release(lapsed, reason=Reason.LEASE_ENDED, at=at)


def settle(*, flow: "Flow", at: datetime) -> list[events.Event]:
    """What becomes of a flow's reservations when it ends: CLOSED uses them up, ABORTED frees them.

    An aborted flow that took effect, or may have, uses them up as well: nothing is granted twice.
    """
    rows = _standing(flow)
    if flow.state == FlowState.CLOSED or _may_stand(rows):
        return _commit(rows, at=at)
    return _release(rows, reason=flow.reason, at=at)


def give_back(*, intent: "Intent", reason: str, at: datetime) -> list[events.Event]:
    """What an ended flow had used up for an intent is released, once none of it can have taken effect."""
    rows = _rows(Reservation.objects.filter(proposal=intent.proposal_id, state=ReservationState.COMMITTED))
    if _may_stand(rows):
        return []
    return _release(rows, reason=reason, at=at)


def use_up_again(*, intent: "Intent", at: datetime) -> list[events.Event]:
    """What was given back for a call that has taken effect after all is used up, as far as it still fits."""
    rows = _rows(Reservation.objects.filter(proposal=intent.proposal_id, state=ReservationState.RELEASED))
    if not _may_stand(rows) or not _take_all(rows):
        return []
    added: list[events.Event] = []
    for row in rows:
        _change(row, ReservationState.PINNED, reason="", ended_at=None)
        added.append(events.ResourcePinned(resource=row.resource.name, amount=row.amount, again=True))
        row.state = ReservationState.PINNED
    return [*added, *_commit(rows, at=at)]


def _may_stand(rows: Sequence[Reservation]) -> bool:
    return bool(rows) and ports.may_have_taken_effect(proposals={row.proposal_id for row in rows})


def _commit(rows: Iterable[Reservation], *, at: datetime) -> list[events.Event]:
    added: list[events.Event] = []
    for row in rows:
        _move(row, committed=row.amount)
        _change(row, ReservationState.COMMITTED, reason="", ended_at=at)
        added.append(events.ResourceCommitted(resource=row.resource.name, amount=row.amount))
    return added


def _release(rows: Iterable[Reservation], *, reason: str, at: datetime) -> list[events.Event]:
    added: list[events.Event] = []
    for row in rows:
        if row.state == ReservationState.COMMITTED:
            changed = Resource.objects.filter(pk=row.resource_id, committed__gte=row.amount).update(
                committed=F("committed") - row.amount
            )
            if changed != 1:
                raise transactions.ConcurrentUpdateError
        else:
            _move(row, committed=0)
        _change(row, ReservationState.RELEASED, reason=str(reason)[:64], ended_at=at)
        added.append(
            events.ResourceReleased(resource=row.resource.name, amount=row.amount, reason=str(reason))
        )
    return added


def _standing(flow: "Flow") -> list[Reservation]:
    return _sorted(resource_facts.list_standing(dfid=flow.pk))


def _rows(rows: QuerySet[Reservation]) -> list[Reservation]:
    return _sorted(rows.select_related("resource"))


def _sorted(rows: Iterable[Reservation]) -> list[Reservation]:
    # Sorted here: a database's collation may order names otherwise than `reserve` does.
    return sorted(rows, key=lambda row: row.resource.name)


def _take(resource_pk: int, amount: int) -> bool:
    """Reserve where it fits: the one place where racers meet."""
    return _TAKEN.run(resource_pk=resource_pk, amount=amount) == 1


def _taken(*, resource_pk: int, amount: int) -> tuple[QuerySet[Resource], dict[str, Any]]:
    room = Resource.objects.filter(pk=resource_pk, capacity__gte=F("reserved") + F("committed") + amount)
    return room, {"reserved": F("reserved") + amount}


_TAKEN: Final = statements.Change(_taken)


def _take_all(rows: Sequence[Reservation]) -> bool:
    for at, row in enumerate(rows):
        if not _take(row.resource_id, row.amount):
            for taken in rows[:at]:
                _move(taken, committed=0)
            return False
    return True


def _move(row: Reservation, *, committed: int) -> None:
    """From reserved to `committed`, or released."""
    lost = transactions.ConcurrentUpdateError
    _MOVED.run_last(lost, resource_pk=row.resource_id, amount=row.amount, committed=committed)


def _moved(*, resource_pk: int, amount: int, committed: int) -> tuple[QuerySet[Resource], dict[str, Any]]:
    held = Resource.objects.filter(pk=resource_pk, reserved__gte=amount)
    return held, {"reserved": F("reserved") - amount, "committed": F("committed") + committed}


def _change(row: Reservation, state: ReservationState, *, reason: str, ended_at: datetime | None) -> None:
    """Compare-and-swap on the state that was read; a lease ends with any change."""
    changed = _CHANGED.run(pk=row.pk, before=row.state, state=state, reason=reason, ended_at=ended_at)
    if changed != 1:
        raise transactions.ConcurrentUpdateError


def _changed(*, pk: int, before: str, **columns: Any) -> tuple[QuerySet[Reservation], dict[str, Any]]:
    return Reservation.objects.filter(pk=pk, state=before), {**columns, "lease_until": None}


def _claimed(*, dfid: UUID, proposal: UUID) -> QuerySet[Reservation]:
    return Reservation.objects.filter(flow=dfid, proposal=proposal).select_related("resource")


_MOVED: Final = statements.Change(_moved)
_CHANGED: Final = statements.Change(_changed)
_CLAIMED: Final = statements.Read(_claimed)
