"""An event for an agent that is not what the ledger recorded is not served: an entry of its flow says so."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from audit import actors
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, mismatches, transactions
from runtime.core.mismatches import Mismatch
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal

DETAIL: Final = (
    "Feedback of this flow does not match the ledger, so it is not shown. Read the state of the flow, and "
    "ask an operator to run manage.py verify_ledger."
)


@transactions.retried
def refuse(*, dfid: UUID, found: Sequence[Mismatch]) -> Problem:
    """Record what was found, once, and 409 TAMPERED for the agent."""
    flow = locks.lock_flow(dfid=dfid)
    if flow is None:
        return Problem(code=ProblemCode.TAMPERED, detail=DETAIL, dfid=str(dfid))
    unsaid = mismatches.list_unsaid(found, tenant=flow.tenant, stream=str(dfid))
    if unsaid:
        journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
        journal.add(*(item.event() for item in unsaid))
        journal.write()
    return Problem(code=ProblemCode.TAMPERED, detail=DETAIL, dfid=str(dfid))
