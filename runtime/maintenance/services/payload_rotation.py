"""The keys of payloads: which there are, beginning another one, and what is left under the earlier ones.

Commitments and salts stay as they are, so no entry and no check depends on which key a payload is under.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, Q, QuerySet

from audit import actors, canonical, cells, chain, ledger, payload_cipher, payload_keys, row_locks
from audit.events import PayloadKeyReencryptionRequested, PayloadKeyRewrapped, PayloadKeyRotated
from audit.models import ClassKey, KeyState, Payload
from audit.payload_keys import InUse, PayloadClass
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.maintenance.models import PayloadRound

AT_ONCE: Final = 200
# Rows from before encryption say nothing of their class. Most of them are what agents sent.
CLASS_OF_CLEAR: Final = PayloadClass.PARAMETERS


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """One key, and how many payloads are encrypted with it."""

    data_class: str
    key_id: UUID
    state: KeyState
    created_at: datetime
    payloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """The key that a class begins with, and the one that it retires."""

    data_class: str
    retired: UUID
    key_id: UUID


@dataclass(slots=True, kw_only=True)
class Moved:
    """How many payloads were encrypted anew; `left` are those that nobody can open, left as they are."""

    moved: int = 0
    left: int = 0


def list_keys(*, tenant: str) -> list[KeyLine]:
    """Every key of the tenant, by class and age."""
    keys = ClassKey.objects.filter(tenant=tenant).order_by("data_class", "created_at", "key_id")
    held = keys.annotate(held=Count("payloads", filter=Q(payloads__erased_at=None)))
    return [
        KeyLine(
            data_class=row.data_class,
            key_id=row.key_id,
            state=row.state,
            created_at=row.created_at,
            payloads=row.held,
        )
        for row in held
    ]


def count_in_clear(*, tenant: str) -> int:
    """How many payloads are from before encryption, and so in clear."""
    return _in_clear(tenant).count()


@transactions.retried
def begin(
    *,
    tenant: str,
    data_class: str,
    actor: str,
    reason: str = "",
    seen: UUID | None = None,
    in_rounds: bool = False,
) -> Rotated | Problem | None:
    """Retire the key in use of a class and begin another; None where it has none to retire.

    `seen` is the key that a person was shown as the one in use. With `in_rounds`, the rounds of the worker
    encrypt what is under the retired key anew. Raises PayloadKeyError where this process cannot use the key
    in use: it would begin one beside it that other processes cannot use. Problems: PAYLOAD_KEY_MOVED where
    another key than `seen` is in use, RECOVERY.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    keys = ClassKey.objects.select_for_update(no_key=True)  # writers refer to it meanwhile
    row = keys.filter(tenant=tenant, data_class=data_class, retired_at=None).first()
    if seen is not None and (row is None or row.pk != seen):
        detail = f"Somebody else has rotated the class {data_class} since the page was shown."
        return Problem(code=ProblemCode.PAYLOAD_KEY_MOVED, detail=detail)
    if row is None:
        return None
    payload_keys.usable(row)
    at = clock.now()
    if ClassKey.objects.filter(pk=row.pk, retired_at=None).update(retired_at=at) != 1:
        raise transactions.ConcurrentUpdateError
    begun = payload_keys.new(tenant=tenant, data_class=data_class, at=at)
    begun.save(force_insert=True)
    payload_keys.forget(tenant=tenant, data_class=data_class)
    event = PayloadKeyRotated(
        data_class=data_class,
        retired_key_id=str(row.pk),
        key_id=str(begun.pk),
        reason_commitment=_keep(tenant, reason) if reason else None,
    )
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])
    given: dict[str, Any] = {"tenant": tenant, "data_class": data_class, "actor": actor, "at": at}
    if in_rounds:
        move_in_rounds(key_id=row.pk, **given)
    if in_rounds and data_class == CLASS_OF_CLEAR and _in_clear(tenant).exists():
        move_in_rounds(key_id=None, **given)
    return Rotated(data_class=data_class, retired=row.pk, key_id=begun.pk)


def move_in_rounds(
    *, tenant: str, data_class: str, key_id: UUID | None, actor: str, at: datetime
) -> PayloadRound:
    """Let the rounds of the worker encrypt anew what is under a retired key; None: what is in clear.

    In the caller's transaction. Where that was asked for before and has ended, it begins again; where it is
    under way, it stays as it is.
    """
    rounds = PayloadRound.objects.of(tenant).filter(key=key_id)
    row = row_locks.lock_or_create(
        rounds, tenant=tenant, key_id=key_id, asked_by=actor, asked_at=at, ended_at=at
    )
    if row.ended_at is not None:
        row.asked_by, row.asked_at, row.ended_at = actor, at, None
        row.after = row.moved = row.unopened = 0
        row.save()
        event = PayloadKeyReencryptionRequested(
            data_class=data_class, key_id=None if key_id is None else str(key_id)
        )
        ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])
    return row


def move(
    *, tenant: str, classes: Sequence[str], after: Callable[[Moved], None] = lambda moved: None
) -> Moved | Problem:
    """Encrypt what lies under retired keys of these classes, or in clear, with the key in use.

    Batch by batch, each in a transaction of its own, `after` which the caller is told: killed at any point,
    it goes on from there. A row that was erased or encrypted anew meanwhile stays as it is. Raises
    PayloadKeyError where this process cannot use the key in use. Problem: RECOVERY.
    """
    overwrite()
    done, last = Moved(), 0
    while True:
        batch = _move_some(tenant=tenant, classes=classes, after_pk=last)
        if isinstance(batch, Problem):
            return batch
        last, moved = batch
        if not last:
            overwrite()
            return done
        done.moved += moved.moved
        done.left += moved.left
        after(done)


def overwrite(*, folds: bool = True) -> None:
    """SQLite: overwrite what is replaced, and fold the log back, so that the file keeps no earlier words.

    Where somebody reads meanwhile, the log is folded back by whoever writes next; without `folds` always.
    """
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = ON")
            if folds:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@transactions.retried
def _move_some(*, tenant: str, classes: Sequence[str], after_pk: int) -> tuple[int, Moved] | Problem:
    """Move a batch; the number of its last row, 0 where there is none."""
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    return move_batch(_left_behind(tenant, classes), tenant=tenant, after_pk=after_pk)


def move_batch(left_behind: QuerySet[Payload], *, tenant: str, after_pk: int) -> tuple[int, Moved]:
    """Encrypt the next of these payloads with the keys in use; the number of the last one, 0 at the end.

    In the caller's transaction. Raises PayloadKeyError where this process cannot use a key in use.
    """
    rows = list(left_behind.filter(pk__gt=after_pk).order_by("pk")[:AT_ONCE])
    done, keys = Moved(), dict[str, InUse]()
    for row in rows:
        opened, salt = row.open(), cells.bytes_of(row.salt)
        # What does not fit its commitment stays: a check finds it, and with the new key it would look whole.
        if opened.body is None or salt is None or chain.commitment(salt, opened.body) != row.commitment:
            done.left += 1
            continue
        data_class = CLASS_OF_CLEAR if row.key is None else row.key.data_class
        if data_class not in keys:
            keys[data_class] = in_use_now(tenant=tenant, data_class=data_class)
        key = keys[data_class]
        nonce, content = payload_cipher.seal_with(key.cipher, commitment=row.commitment, body=opened.body)
        same = Payload.objects.filter(pk=row.pk, erased_at=None, key=row.key_id, nonce=row.nonce)
        done.moved += same.update(key=key.key_id, nonce=nonce, content=content)
    return (rows[-1].pk if rows else 0), done


def _in_clear(tenant: str) -> QuerySet[Payload]:
    return Payload.objects.filter(tenant=tenant, key=None, erased_at=None)


def _left_behind(tenant: str, classes: Sequence[str]) -> QuerySet[Payload]:
    retired = ClassKey.objects.filter(tenant=tenant, data_class__in=list(classes), destroyed_at=None)
    left = Q(key__in=list(retired.exclude(retired_at=None).values_list("pk", flat=True)))
    if CLASS_OF_CLEAR in classes:
        left |= Q(key=None)
    return Payload.objects.filter(left, tenant=tenant, erased_at=None)


def in_use_now(*, tenant: str, data_class: str) -> InUse:
    """The key in use as the database has it: what this process remembers may be retired by another.

    It is begun where there is none. Raises PayloadKeyError where this process cannot use it.
    """
    rows = ClassKey.objects.filter(tenant=tenant, data_class=data_class, retired_at=None)
    row = rows.first()
    if row is None:
        begun = payload_keys.new(tenant=tenant, data_class=data_class, at=clock.now())
        ClassKey.objects.bulk_create([begun], ignore_conflicts=True)
        row = rows.get()
    return payload_keys.usable(row)


@transactions.retried
def rewrap(*, tenant: str, old: str, actor: str) -> int | Problem:
    """Wrap every key with the key of this installation instead of with `old`: all of them, or none.

    How many; 0 where all are wrapped by it already. Raises PayloadKeyError where `old` is not what wraps one
    of them. The payloads are not touched. Problem: RECOVERY.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    held = payload_cipher.master()
    if held is None:
        raise payload_cipher.PayloadKeyError(
            "DIR_PAYLOAD_KEY holds no key, so nothing can be wrapped with it"
        )
    keys = ClassKey.objects.select_for_update(no_key=True).filter(destroyed_at=None)
    rows = list(keys.exclude(master_id=held.master_id).order_by("pk"))
    for row in rows:
        same = ClassKey.objects.filter(pk=row.pk, wrapped=row.wrapped)
        wrapped = payload_cipher.rewrap(row, old=old)
        if same.update(wrapped=wrapped, master_id=held.master_id) != 1:
            raise transactions.ConcurrentUpdateError
    if rows:
        event = PayloadKeyRewrapped(old_master_id=rows[0].master_id, master_id=held.master_id, keys=len(rows))
        ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=clock.now(), events=[event])
    return len(rows)


def _keep(tenant: str, reason: str) -> str:
    """The commitment to a reason, which is stored beside the chain."""
    return ledger.commit_payload(tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(reason))
