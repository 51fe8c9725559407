"""The round that sends: each receiver gets what is sealed, in the order of the tree, and at least once.

A sender takes the turn of a receiver until a lease ends, sends outside every transaction, and moves the
position only if it still has the turn. Whoever crashes before that sends the last message again, with the
same id. One that fails keeps its own order and costs no other receiver anything.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Coalesce

from audit import actors, events, ledger
from runtime.contracts import receiver as contract
from runtime.contracts.receiver import ReceiverState, SealedEntry
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.execution.services.event_delivery import SEND_S, Answered
from runtime.kernel import backoff
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed, state_readers
from runtime.outward.services import delivery

# Longer than one message takes.
LEASE_S: Final = 6 * SEND_S
# After so long another receiver gets its turn.
TURN_S: Final = 20.0
LEAVES: Final = 200
FIRST_PAUSE_S: Final = 2.0
LONGEST_PAUSE_S: Final = 600.0
# A receiver may ask for more patience, up to this.
LONGEST_WAIT_S: Final = 3600.0
GONE: Final = 410

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a sender holds: the receiver as it was when the lease began or was last renewed."""

    row: Receiver

    def still(self) -> dict[str, Any]:
        """What finds the row only while nobody else took the turn, moved the position or paused it."""
        return {
            "pk": self.row.pk,
            "next_at": self.row.next_at,
            "next_leaf": self.row.next_leaf,
            "state": ReceiverState.ACTIVE,
        }


@dataclass(frozen=True, slots=True)
class _Message:
    """What goes out together, and the position once it was taken. Without entries nothing is sent."""

    entries: Sequence[SealedEntry]
    next_leaf: int
    # Sent in place of what the receiver is too far behind for: the version of the world to start from.
    resync: int | None = None


def send_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Send to every receiver whose turn it is; returns how many events were taken.

    Safe beside any number of other senders. What goes wrong with one receiver is noted and costs no other.
    """
    size = sealed.size()
    rows = Receiver.objects.filter(state=ReceiverState.ACTIVE, next_at__lte=clock.now(), next_leaf__lt=size)
    due = list(rows.order_by("next_at").values_list("pk", flat=True))
    if not due or epochs.refuse_while_recovering() is not None:
        return 0
    taken = 0
    for pk in due:
        if is_stopping():
            break
        try:
            taken += _send_to(pk, is_stopping)
        except transactions.BusyError:
            _log.info("a receiver of events waits for the next round: too many concurrent updates")
        except Exception:
            _log.exception("events could not be sent to the receiver %s", pk)
    return taken


def _send_to(pk: UUID, is_stopping: Callable[[], bool]) -> int:
    """One turn of one receiver: until it has everything, fails, or its time is over."""
    turn = transactions.retry_on_conflict(partial(_claim, pk))
    if turn is None:
        return 0
    taken, ends_at = 0, time.monotonic() + TURN_S
    while time.monotonic() < ends_at and not is_stopping():
        try:
            entries, next_leaf = sealed.list_leaves(
                tenant=turn.row.tenant, from_leaf=turn.row.next_leaf, most=LEAVES
            )
        except sealed.NotAsSealedError as error:
            _fail(turn, Answered(why=str(error)))
            return taken
        if next_leaf == turn.row.next_leaf:
            break
        for message in _messages(turn.row, entries, next_leaf):
            if message.entries:
                transactions.give_back_connection()
                answer = (
                    delivery.send(turn.row, message.entries)
                    if message.resync is None
                    else delivery.send_resync(turn.row, message.entries[0], version=message.resync)
                )
                if answer.why is not None:
                    _fail(turn, answer)
                    return taken
            moved = transactions.retry_on_conflict(partial(_move, turn, message))
            if moved is None:
                return taken
            turn, taken = moved, taken + len(message.entries)
            if time.monotonic() >= ends_at or is_stopping():
                break
    transactions.retry_on_conflict(partial(_give_back, turn))
    return taken


def _messages(row: Receiver, entries: Sequence[SealedEntry], next_leaf: int) -> Iterator[_Message]:
    """What it wants of the entries, in messages of its size; the last one moves past all that was read."""
    wanted = [entry for entry in entries if contract.is_wanted(row.wants, entry.kind)]
    if contract.gets_state(row.wants):
        size = sealed.size()
        wanted = state_readers.list_in_sight(row, wanted)
        resync = state_readers.find_resync(row, wanted)
        if resync is not None:
            # What was sealed up to here is in that version of the world.
            yield _Message(wanted[:1], size, resync)
            return
    most = delivery.most_in_one(row)
    parts = [wanted[begin : begin + most] for begin in range(0, len(wanted), most)]
    for part in parts[:-1]:
        yield _Message(part, part[-1].leaf + 1)
    yield _Message(parts[-1] if parts else (), next_leaf)


def _claim(pk: UUID) -> _Turn | None:
    """Take the turn until a lease ends; None where another sender has it."""
    at = clock.now()
    row = Receiver.objects.filter(pk=pk, state=ReceiverState.ACTIVE, next_at__lte=at).first()
    if row is None:
        return None
    until = at + timedelta(seconds=LEASE_S)
    if not Receiver.objects.filter(**_Turn(row).still()).update(next_at=until):
        return None
    row.next_at = until
    return _Turn(row)


def _move(turn: _Turn, message: _Message) -> _Turn | None:
    """Note what was taken, and hold on to the turn; None where it is no longer ours."""
    at = clock.now()
    until = _lease_end(at, turn.row.next_at)
    changed: dict[str, Any] = {"next_leaf": message.next_leaf, "next_at": until}
    if message.entries:
        changed |= {"taken_at": at, "tries": 0, "failing_since": None, "error": ""}
    if not Receiver.objects.filter(**turn.still()).update(**changed):
        return None
    turn.row.next_leaf, turn.row.next_at = message.next_leaf, until
    if message.entries:
        turn.row.tries = 0
    return turn


def _lease_end(at: datetime, before: datetime) -> datetime:
    """The end of the renewed lease: never the same moment again, which would look like the old one."""
    return max(at + timedelta(seconds=LEASE_S), before + timedelta(microseconds=1))


def _give_back(turn: _Turn) -> None:
    Receiver.objects.filter(**turn.still()).update(next_at=clock.now())


def _fail(turn: _Turn, answer: Answered) -> None:
    """Note why it took nothing, and when it is tried again; pause one that is gone for good."""
    if not turn.row.tries:
        _log.warning("the receiver of events %s did not take one: %s", turn.row.name, answer.why)
    work = _pause_gone if answer.status == GONE else _wait
    transactions.retry_on_conflict(partial(work, turn, answer))


def _wait(turn: _Turn, answer: Answered) -> None:
    at = clock.now()
    pause_s = backoff.doubled_s(times=turn.row.tries + 1, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
    if answer.wait_s is not None:
        pause_s = min(max(pause_s, answer.wait_s), LONGEST_WAIT_S)
    Receiver.objects.filter(**turn.still()).update(
        tries=F("tries") + 1,
        failing_since=Coalesce("failing_since", at),
        error=(answer.why or "")[: contract.LONGEST_ERROR],
        next_at=at + timedelta(seconds=pause_s),
    )


def _pause_gone(turn: _Turn, answer: Answered) -> None:
    why = f"{answer.why}: it says that it is gone for good"
    row, at = turn.row, clock.now()
    paused = {"state": ReceiverState.PAUSED, "paused_why": why, "next_at": at}
    if not Receiver.objects.filter(**turn.still()).update(**paused):
        return
    at = ledger.time_of_next(tenant=row.tenant, stream=actors.SYSTEM, at=at)
    entry = events.ReceiverPaused(receiver_id=str(row.pk), name=row.name, reason=why)
    ledger.append_to(tenant=row.tenant, stream=actors.SYSTEM, actor=actors.SYSTEM, at=at, events=[entry])
