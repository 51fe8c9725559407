"""Legal holds: an admin places one on a flow or a subject, and releases it; each says why.

Placing and erasing lock the same row (`lock`), so one comes first: either the hold is seen by the erasure, or
it is placed on a flow whose words are gone.
"""

from uuid import UUID

from audit import actors, canonical, events, ledger, row_locks
from audit.models import RecordTerm
from audit.payload_keys import PayloadClass
from runtime.contracts import hold as contract
from runtime.contracts.hold import HoldTarget
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.flows.services import locks
from runtime.maintenance.models import ONLY, HoldLock, LegalHold

_UNNAMED = (
    f"Give the hold a name such as case-2026-14: at most {contract.LONGEST_NAME} letters, digits and . _ / -"
)


def lock() -> None:
    """Wait for whoever places a hold or erases now; until the end of the transaction nobody else does.

    It comes after the locks of flows, and before the heads of streams.
    """
    row_locks.lock_or_create(HoldLock.objects.filter(only=ONLY), only=ONLY)


@transactions.retried
def place(
    *, tenant: str, name: str, reason: str, actor: str, dfid: UUID | None = None, subject: str = ""
) -> LegalHold | Problem:
    """Place a hold on a flow or on a subject such as `order:881`: exactly one of the two.

    Problems: INVALID_REQUEST, NOT_FOUND for a flow that is not there, HOLD_EXISTS where a live hold has the
    same name and target, RECOVERY while a restored backup waits for an admin.
    """
    refused = epochs.refuse_while_recovering() or _refuse(name=name, dfid=dfid, subject=subject)
    refused = refused or _refuse_reason(reason)
    if refused is not None:
        return refused
    # Before `lock`, as an erasure does: the row of a hold refers to the flow, and so waits for it.
    if dfid is not None and locks.lock_one(dfid=dfid, tenant=tenant) is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No flow has this id.")
    lock()
    live = LegalHold.objects.of(tenant).filter(name=name, flow=dfid, subject=subject, released_at=None)
    if live.exists():
        detail = f"A live hold {name} keeps this already: choose another name."
        return Problem(code=ProblemCode.HOLD_EXISTS, detail=detail)
    hold = LegalHold.objects.create(
        tenant=tenant,
        name=name,
        target=HoldTarget.SUBJECT if dfid is None else HoldTarget.FLOW,
        flow_id=dfid,
        subject=subject,
        commitment=_keep(tenant, reason),
        placed_by=actor,
        placed_at=clock.now(),
    )
    placed = events.HoldPlaced(
        hold_id=str(hold.pk),
        name=name,
        target=hold.target,
        dfid=None if dfid is None else str(dfid),
        subject=subject,
        text_commitment=hold.commitment,
    )
    ledger.append_to(
        tenant=tenant, stream=actors.hold(hold.pk), actor=actor, at=hold.placed_at, events=[placed]
    )
    return hold


@transactions.retried
def release(*, tenant: str, hold_id: UUID, reason: str, actor: str) -> LegalHold | Problem:
    """Release a live hold. Problems: INVALID_REQUEST, NOT_FOUND, HOLD_RELEASED, RECOVERY."""
    refused = epochs.refuse_while_recovering() or _refuse_reason(reason)
    if refused is not None:
        return refused
    hold = LegalHold.objects.of(tenant).select_for_update(of=("self",)).filter(pk=hold_id).first()
    if hold is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No hold has this id.")
    if hold.released_at is not None:
        return Problem(code=ProblemCode.HOLD_RELEASED, detail=f"The hold {hold.name} was released already.")
    stream = actors.hold(hold.pk)
    hold.released_at = ledger.time_of_next(tenant=tenant, stream=stream, at=clock.now())
    hold.released_by, hold.release_commitment = actor, _keep(tenant, reason)
    hold.save(update_fields=("released_at", "released_by", "release_commitment"))
    released = events.HoldReleased(
        hold_id=str(hold.pk), name=hold.name, text_commitment=hold.release_commitment
    )
    ledger.append_to(tenant=tenant, stream=stream, actor=actor, at=hold.released_at, events=[released])
    return hold


def is_subject_known(*, tenant: str, subject: str) -> bool:
    """Whether a decision record names this subject: a hold on another keeps nothing so far."""
    terms = RecordTerm.objects.filter(tenant=tenant, name=RecordTerm.Name.SUBJECT, value=subject)
    return terms.exists()


def _refuse(*, name: str, dfid: UUID | None, subject: str) -> Problem | None:
    if contract.NAME.fullmatch(name) is None:
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=_UNNAMED)
    if (dfid is None) == (not subject):
        detail = "Name either a flow or a subject."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    if len(subject) > contract.LONGEST_SUBJECT or not subject.isprintable():
        detail = f"A subject has at most {contract.LONGEST_SUBJECT} characters, such as order:881."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    return None


def _refuse_reason(reason: str) -> Problem | None:
    if 0 < len(reason.strip()) <= contract.LONGEST_REASON and "\x00" not in reason:
        return None
    detail = f"Enter a reason of at most {contract.LONGEST_REASON} characters."
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)


def _keep(tenant: str, reason: str) -> str:
    """The commitment to a reason, which is stored beside the chain."""
    return ledger.commit_payload(
        tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(reason.strip())
    )
