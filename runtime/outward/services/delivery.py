"""How each kind of receiver gets a message: what goes into one, its form, and the road it takes."""

from collections.abc import Sequence
from typing import Final

from audit import actors, canonical, chain
from runtime.contracts.receiver import ReceiverKind, SealedEntry, message_id
from runtime.core import clock
from runtime.execution.services import event_delivery
from runtime.execution.services.event_delivery import Answered
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed
from runtime.outward.services import cloud_events

TEST_KIND: Final = "receiver:test"


def most_in_one(row: Receiver) -> int:
    """How many events one message holds."""
    return 1


def send(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    """Send one message of at most `most_in_one` events; never in a transaction."""
    (entry,) = entries
    return event_delivery.post_signed(
        url=row.place,
        secret_env=row.secret_env,
        message_id=message_id(row.pk, entry.entry_hash),
        media_type=cloud_events.MEDIA_TYPE,
        body=cloud_events.encode(entry),
    )


def send_test(row: Receiver) -> str | None:
    """Send an event of the kind `receiver:test`, which is in no ledger; None where it was taken, else why."""
    at = clock.now()
    body = {
        "tenant": row.tenant,
        "stream": actors.SYSTEM,
        "seq": 0,
        "kind": TEST_KIND,
        "at": chain.time_text(at),
        "actor": actors.SYSTEM,
        "payload": {"name": row.name, "receiver_id": str(row.pk)},
    }
    prev_hash = chain.GENESIS_HASH
    entry = SealedEntry(
        origin=sealed.origin(),
        leaf=0,
        entry_hash=chain.entry_hash(prev_hash, canonical.encode(body)).hex(),
        prev_hash=prev_hash.hex(),
        body=body,
        at=at,
    )
    return send(row, [entry]).why


def trouble(kind: ReceiverKind, place: str) -> str | None:
    """What is wrong with where a receiver is; None where nothing is."""
    return event_delivery.trouble(place)
