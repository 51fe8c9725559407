"""Erasing what the ledger keeps beside its chain: the commitment stays, and reveals nothing."""

from audit import ledger, queries
from audit.events import Kind
from audit.packs import sources
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.maintenance.queries import holds as held
from runtime.maintenance.services import holds


@transactions.retried
def erase(*, tenant: str, commitment: str, reason: str, actor: str) -> bool | Problem:
    """Erase one payload with its salt and record why; False where there is none under this commitment.

    FLOW_KEPT where a legal hold keeps a flow that names it.
    """
    holds.lock()
    for dfid in held.list_held_flows(tenant=tenant):
        told = queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=list(Kind))
        if any(value == commitment for _, payload in told for _, value in sources.list_commitments(payload)):
            hold = held.find_hold(dfid, tenant=tenant)
            detail = held.words_of(hold) if hold is not None else "A legal hold keeps the flow."
            return Problem(code=ProblemCode.FLOW_KEPT, detail=detail, dfid=str(dfid))
    return ledger.erase_payload(
        tenant=tenant, commitment=commitment, actor=actor, at=clock.now(), reason=reason
    )
