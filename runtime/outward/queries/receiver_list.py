"""Receivers with how far each has come, for the page, the inbox and monitors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from runtime.contracts.receiver import ReceiverState
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed

# After so long without taking anything a person should look.
LATE_S: Final = 3600


@dataclass(frozen=True, slots=True)
class ReceiverShown:
    """A receiver, and how many leaves of the tree it has not come past yet."""

    row: Receiver
    behind: int


def list_receivers(*, tenant: str) -> Sequence[ReceiverShown]:
    """By name."""
    size = sealed.size()
    rows = Receiver.objects.of(tenant).order_by("name")
    return [ReceiverShown(row, max(0, size - row.next_leaf)) for row in rows]


def get(*, tenant: str, receiver_id: UUID) -> Receiver | None:
    """One receiver; None where there is none of this id."""
    return Receiver.objects.of(tenant).filter(pk=receiver_id).first()


def failing(*, tenant: str, since: datetime) -> QuerySet[Receiver]:
    """Those that have taken nothing since then, although there was something to take."""
    return Receiver.objects.of(tenant).filter(state=ReceiverState.ACTIVE, failing_since__lt=since)
