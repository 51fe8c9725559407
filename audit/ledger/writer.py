"""The one way to write entries: inside the caller's transaction, last.

A state change and its entries share one transaction, so nothing happens unrecorded: when an append
fails, its exception takes the whole use case back.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit import actors, chain, payload_cipher, payload_keys, row_locks, statements
from audit.events import Event, PayloadErased
from audit.live import hints, topics
from audit.models import LedgerEntry, Payload, StreamHead

_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a stream: number and hash (32 bytes) of its last entry, and that entry's time.

    A caller that stores heads itself and leaves `at` out costs each append one query for it.
    """

    seq: int
    hash: bytes
    at: datetime | None = None


GENESIS = Head(seq=0, hash=chain.GENESIS_HASH)


def append(
    *,
    tenant: str,
    stream: str,
    head: Head,
    actor: str,
    at: datetime,
    events: Sequence[Event],
    told: Mapping[str, Any] | None = None,
) -> Head:
    """Chain `events` after `head` and return the new head, which the caller stores with its own row.

    The caller holds the lock on the row that owns the stream and passes that row's head; a stale head
    ends in an IntegrityError, never in a fork. `at` is aware; an earlier time than the stream's last
    entry is raised to it. One insert for the whole batch; browsers are told after the commit.

    `told` are commitments to rows that the same transaction writes (`audit.told`): further members of
    the payload of the last entry, of which there must be one then.
    """
    _require_transaction()
    if not events:
        if told:
            raise ValueError("what an agent is told is recorded with an entry, and there is none")
        return head
    last_at = head.at
    if last_at is None and head.seq:
        last_at = (
            LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=head.seq)
            .values_list("at", flat=True)
            .first()
        )
    at = at if last_at is None else max(at, last_at)
    entries, seq, last_hash = [], head.seq, bytes(head.hash)
    for place, event in enumerate(events, start=1):
        seq += 1
        payload = event.payload()
        if told and place == len(events):
            payload.update(told)
        body = chain.body_bytes(
            tenant=tenant,
            stream=stream,
            seq=seq,
            kind=event.kind.value,
            at=at,
            actor=actor,
            payload=payload,
        )
        entry_hash = chain.entry_hash(last_hash, body)
        entries.append(
            LedgerEntry(
                tenant=tenant,
                stream=stream,
                seq=seq,
                kind=event.kind.value,
                at=at,
                actor=actor,
                body=body,
                prev_hash=last_hash,
                hash=entry_hash,
            )
        )
        last_hash = entry_hash
    statements.insert(entries)
    about = topics.of_kinds(event.kind for event in events)
    hints.hint_after_commit(tenant=tenant, streams=(stream, *about), seq=seq)
    return Head(seq=seq, hash=last_hash, at=at)


def append_to(*, tenant: str, stream: str, actor: str, at: datetime, events: Sequence[Event]) -> Head:
    """Append to a stream that is not a flow: `agent:<id>`, `feed:<name>`, `user:<pk>` or `system`.

    Locks the stream's StreamHead row until the transaction ends; last in the order of locks.
    """
    _require_transaction()
    heads = StreamHead.objects.filter(tenant=tenant, stream=stream)
    row = row_locks.lock_or_create(heads, tenant=tenant, stream=stream)
    head = append(
        tenant=tenant,
        stream=stream,
        head=Head(seq=row.seq, hash=bytes(row.hash), at=row.at),
        actor=actor,
        at=at,
        events=events,
    )
    if head.seq != row.seq:
        StreamHead.objects.filter(pk=row.pk).update(seq=head.seq, hash=head.hash, at=head.at)
    return head


def time_of_next(*, tenant: str, stream: str, at: datetime) -> datetime:
    """The time that an entry of `at` will have: where a clock was set back, that of the stream's last entry.

    For a row that keeps the time of its entry. Locks the stream's StreamHead row as `append_to` does.
    """
    _require_transaction()
    heads = StreamHead.objects.select_for_update().filter(tenant=tenant, stream=stream)
    last_at = heads.values_list("at", flat=True).first()
    return at if last_at is None else max(at, last_at)


def commit_payload(*, tenant: str, data_class: str, body: bytes) -> str:
    """Store `body` outside the chain and return its commitment, the hexadecimal SHA-256(salt || body)."""
    return commit_payloads(tenant=tenant, data_class=data_class, bodies=[body])[0]


def commit_payloads(*, tenant: str, data_class: str, bodies: Sequence[bytes]) -> list[str]:
    """Store several bodies outside the chain in one insert, and return their commitments in order.

    They are encrypted with the key of `data_class` (`payload_keys`), which is their class; on an
    installation without a key they are in clear.
    """
    key = payload_keys.in_use(tenant=tenant, data_class=data_class, at=timezone.now())
    rows = []
    for body in bodies:
        salt = secrets.token_bytes(_SALT_BYTES)
        row = Payload(tenant=tenant, commitment=chain.commitment(salt, body), salt=salt, content=body)
        if key is not None:
            row.key_id = key.key_id
            row.nonce, row.content = payload_cipher.seal_with(
                key.cipher, commitment=row.commitment, body=body
            )
        rows.append(row)
    statements.insert(rows)
    return [row.commitment for row in rows]


def erase_payload(*, tenant: str, commitment: str, actor: str, at: datetime, reason: str) -> bool:
    """Erase a stored payload and record it on `system`; False when there is none left to erase."""
    _require_transaction()
    if not empty_payloads(Payload.objects.filter(tenant=tenant, commitment=commitment), at=at):
        return False
    event = PayloadErased(commitment=commitment, reason=reason)
    append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])
    return True


def empty_payloads(rows: QuerySet[Payload], *, at: datetime) -> int:
    """Take salt and content from those of `rows` that hold them; how many. The caller records why."""
    return rows.filter(erased_at=None).update(content=None, nonce=None, salt=None, key=None, erased_at=at)


def _require_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("the ledger is written inside the transaction of the change that it records")
