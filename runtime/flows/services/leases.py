"""Leases on resources that have ended: a flow that waits too long before its claim blocks no one else."""

from uuid import UUID

from audit import actors
from runtime.core import clock
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.resources.services import reservations


def release_lapsed(dfid: UUID) -> bool:
    """Free what a flow holds on a lease that has ended, in the caller's transaction; False for nothing."""
    flow = locks.lock_flow(dfid=dfid)
    if flow is None:
        return False
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    freed = reservations.release_lapsed(flow=flow, at=journal.at)
    if not freed:
        return False
    journal.add(*freed)
    journal.write()
    return True
