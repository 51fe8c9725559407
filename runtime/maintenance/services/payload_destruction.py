"""Destroying a retired key, and with it every payload that is still under it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from audit import actors, canonical, erased_keys, ledger, queries
from audit.events import Kind, PayloadKeyDestroyed
from audit.models import ClassKey, Payload
from audit.packs import sources
from audit.payload_keys import PayloadClass
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.maintenance.queries import holds as held
from runtime.maintenance.services import holds

# Longer than a process goes on with a key that was retired (`payload_keys.ASK_AGAIN_S`), and than any
# transaction: no lock keeps a writer out, since PostgreSQL looks at the reference to the key at the commit.
GRACE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroyed:
    """A key, how many payloads were erased with it, or would be, and the digest of their commitments."""

    key_id: UUID
    data_class: str
    payloads: int
    commitments_digest: str


def list_retired(*, tenant: str, data_class: str) -> list[UUID]:
    """The keys of a class that are retired and not destroyed, oldest first."""
    rows = ClassKey.objects.filter(tenant=tenant, data_class=data_class, destroyed_at=None)
    retired = rows.exclude(retired_at=None).order_by("created_at", "key_id")
    return list(retired.values_list("pk", flat=True))


@transactions.retried
def destroy(
    *,
    tenant: str,
    data_class: str,
    key_id: UUID,
    reason: str,
    actor: str,
    is_dry: bool = False,
    seen: str | None = None,
    most: int | None = None,
) -> Destroyed | Problem:
    """Erase the payloads under a retired key with their salts, and the key; with `is_dry` only count them.

    `seen` is the `commitments_digest` that a person was shown, and `most` how many payloads may go at once.
    Problems: NOT_FOUND; INVALID_REQUEST for a key in use, a destroyed one, or one that was retired less than
    `GRACE` ago, and for more than `most` payloads; FLOW_KEPT where a legal hold keeps a flow with a payload
    under it; PAYLOAD_KEY_MOVED where other payloads are under it than were `seen`; RECOVERY.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    keys = ClassKey.objects.filter(tenant=tenant, data_class=data_class)
    if not is_dry:
        holds.lock()
        keys = keys.select_for_update(no_key=True)
    row = keys.filter(pk=key_id).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail=f"The class {data_class} has no key {key_id}.")
    refused = _refuse_now(row) or _refuse_many(row, most) or _refuse_held(row)
    if refused is not None:
        return refused
    left = Payload.objects.filter(key=row, erased_at=None)
    if is_dry or seen is not None:
        named = list(left.values_list("commitment", flat=True))
        would = Destroyed(
            key_id=row.pk,
            data_class=row.data_class,
            payloads=len(named),
            commitments_digest=erased_keys.digest_of(named),
        )
        if is_dry:
            return would
        if would.commitments_digest != seen:
            detail = f"Other payloads are under the key {row.pk} than the page showed."
            return Problem(code=ProblemCode.PAYLOAD_KEY_MOVED, detail=detail)
    at = clock.now()
    left.update(content=None, nonce=None, salt=None, erased_at=at)
    gone = list(Payload.objects.filter(key=row).values_list("commitment", flat=True))
    digest = erased_keys.digest_of(gone)
    if seen is not None and digest != seen:
        raise transactions.ConcurrentUpdateError  # a payload was moved or written since it was compared
    ClassKey.objects.filter(pk=row.pk).update(wrapped=None, destroyed_at=at)
    event = PayloadKeyDestroyed(
        data_class=row.data_class,
        key_id=str(row.pk),
        payloads=len(gone),
        commitments_digest=digest,
        reason_commitment=ledger.commit_payload(
            tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(reason)
        ),
    )
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])
    return Destroyed(key_id=row.pk, data_class=row.data_class, payloads=len(gone), commitments_digest=digest)


def _refuse_now(row: ClassKey) -> Problem | None:
    detail = ""
    if row.destroyed_at is not None:
        detail = f"The key {row.pk} was destroyed already."
    elif row.retired_at is None:
        detail = f"The key {row.pk} is in use: rotate the class {row.data_class} first."
    elif clock.now() < row.retired_at + GRACE:
        detail = (
            f"Processes may still write under the key {row.pk}. It can be destroyed from "
            f"{row.retired_at + GRACE:%Y-%m-%d %H:%M:%S} UTC on."
        )
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail) if detail else None


def _refuse_many(row: ClassKey, most: int | None) -> Problem | None:
    under = Payload.objects.filter(key=row, erased_at=None)
    if most is None or len(under.order_by().values_list("pk")[: most + 1]) <= most:
        return None
    detail = (
        f"More than {most:,} payloads are under the key {row.pk}, too many for one request. Destroy it with "
        f"manage.py payload_keys destroy {row.data_class} {row.pk} --reason TEXT."
    )
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)


def _refuse_held(row: ClassKey) -> Problem | None:
    """Live holds keep the payloads of their flows, and why they were placed."""
    under = Payload.objects.filter(tenant=row.tenant, key=row, erased_at=None)
    if not under.exists():
        return None
    for dfid in held.list_held_flows(tenant=row.tenant):
        told = queries.list_payloads(tenant=row.tenant, stream=str(dfid), kinds=list(Kind))
        named = {value for _, payload in told for _, value in sources.list_commitments(payload)}
        if under.filter(commitment__in=named).exists():
            hold = held.find_hold(dfid, tenant=row.tenant)
            why = held.words_of(hold) if hold is not None else "A legal hold keeps the flow."
            detail = f"A payload of the flow {dfid} is under the key {row.pk}. {why}"
            return Problem(code=ProblemCode.FLOW_KEPT, detail=detail, dfid=str(dfid))
    if under.filter(commitment__in=held.list_reasons_of_live(tenant=row.tenant)).exists():
        detail = f"Why a live legal hold was placed is under the key {row.pk}."
        return Problem(code=ProblemCode.FLOW_KEPT, detail=detail)
    return None
