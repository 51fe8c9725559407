"""A trial desk whose purchases claim what can run out, and what is held of it."""

from uuid import UUID

import pytest
from django.db.models import F, Sum

from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import ENDED, STANDING, ReservationState
from runtime.execution.services import calling
from runtime.resources.models import Reservation, Resource
from tests.support import trading_desk

CLAIMS = "claims: [{resource: units, amount: params.quantity * 30}, {resource: slots, amount: '1'}]"
RESOURCES = """resources:
  - {name: units, capacity: 100, unit: units}
  - {name: slots, capacity: 9, unit: slots}"""
_PLAIN = trading_desk.PACK
DONE = Receipt(status_code=200, body=b"{}")


def failure(failure_class: FailureClass) -> Failure:
    return Failure(category=FailureCategory.TIMED_OUT, failure_class=failure_class, detail="it failed")


def pack() -> str:
    """The trial pack with two claims: `quantity: 2` takes sixty of a hundred units, and one slot."""
    return with_claims(_PLAIN)


def with_claims(plain: str) -> str:
    """A trial pack whose kind claims units and a slot."""
    text = plain.replace('    effect: "Buy', f'    {CLAIMS}\n    effect: "Buy')
    text = text.replace("limits: {}, ", "limits: {}, compute: {tokens: 1000}, ")
    return text.replace("policy_kinds:\n  -", f"{RESOURCES}\npolicy_kinds:\n  -", 1)


def open_desk(monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    monkeypatch.setattr(trading_desk, "PACK", pack())
    return trading_desk.open_desk()


def answer_with(monkeypatch: pytest.MonkeyPatch, result: CallResult) -> None:
    monkeypatch.setattr(calling, "call", lambda *claim, **limits: result)


def used(name: str = "units") -> tuple[int, int]:
    """Reserved and committed."""
    row = Resource.objects.get(name=name)
    return row.reserved, row.committed


def states(intent_id: UUID) -> set[str]:
    """The states of an intent's reservations."""
    return set(Reservation.objects.filter(proposal__intent=intent_id).values_list("state", flat=True))


def check() -> None:
    """What must hold at every moment: no unit granted twice, none held by nobody."""
    assert not Resource.objects.filter(capacity__lt=F("reserved") + F("committed")).exists()
    for row in Resource.objects.all():
        held = row.reservations.filter(state__in=STANDING).aggregate(sum=Sum("amount"))["sum"] or 0
        ended = row.reservations.filter(state=ReservationState.COMMITTED).aggregate(sum=Sum("amount"))["sum"]
        assert (row.reserved, row.committed) == (held, ended or 0), row
    assert not Reservation.objects.filter(state__in=STANDING, flow__state__in=ENDED).exists()
