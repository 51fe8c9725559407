"""Reviews that a person asks for: the flows that received an item of memory, marked in one transaction."""

from dataclasses import dataclass
from uuid import UUID

from audit import events
from runtime.contracts.guard import WHOLE_BPS, ReviewOrigin
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, given_reasons, transactions
from runtime.flows.models import Flow
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.models import Review
from runtime.guards.queries import memory_reach
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_entries, memory_layers


@dataclass(frozen=True, kw_only=True)
class Marked:
    """How many flows were marked now, and how many had been before or have nothing left to review."""

    item: MemoryItem
    marked: int
    left: int


@transactions.retried
def request(
    *,
    tenant: str,
    pk: int,
    digest: str,
    reason: str,
    actor: str,
    before: tuple[int, int] | None = None,
) -> Marked | Problem:
    """Mark every flow that received an item for review; `before` as in `memory_reach.find`.

    A flow is marked once for an item, however often this is asked; one whose words were erased is left out.
    404 for no item, 409 for a value other than the one that was shown, or that the ledger does not have.
    """
    refusal = given_reasons.refuse(reason)
    if refusal is not None:
        return refusal
    item = memory_layers.get_by_pk(tenant=tenant, pk=pk)
    if item is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No item of memory has this id.")
    if digest != item.digest:
        detail = "This is not the value that was shown. Review it again before you mark flows."
        return Problem(code=ProblemCode.VERSION_MISMATCH, status=409, detail=detail)
    if memory_entries.compare_written(item) is not None:
        detail = "The value does not match the ledger. Run manage.py verify_ledger."
        return Problem(code=ProblemCode.TAMPERED, detail=detail)
    found = memory_reach.find(item=item, before=before)
    # Ids rise with time: a parent is locked before its children.
    dfids = sorted(touched.flow.pk for touched in found.flows)
    marked = sum(_mark(item, dfid, reason=reason, actor=actor) for dfid in dfids)
    return Marked(item=item, marked=marked, left=len(dfids) - marked)


def _mark(item: MemoryItem, dfid: UUID, *, reason: str, actor: str) -> int:
    """Mark one flow, under its lock; 0 where it is marked already."""
    flow = locks.lock_one(dfid=dfid, tenant=item.tenant)
    if flow is None or flow.erased_at is not None or _is_marked(item, flow):
        return 0
    journal = Journal(flow=flow, actor=actor, at=clock.now())
    review = Review.objects.create(
        tenant=flow.tenant,
        flow=flow,
        agent=flow.agent,
        origin=ReviewOrigin.MEMORY,
        memory=item,
        requested_by=actor,
        request_reason=reason,
        confidence_bps=WHOLE_BPS,
        findings=b"[]",
        flagged_at=journal.at,
    )
    journal.add(
        events.ReviewRequested(
            review_id=str(review.pk),
            scope=item.scope,
            key=item.key,
            version=item.version,
            digest=item.digest,
            reason=reason,
        )
    )
    journal.write()
    return 1


def _is_marked(item: MemoryItem, flow: Flow) -> bool:
    return Review.objects.filter(flow=flow, memory=item).exists()
