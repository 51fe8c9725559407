"""Claims: a lease that tells colleagues who is looking. A courtesy, never a condition of deciding."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from audit import actors, events
from escalations.contracts import State
from escalations.services import escalation_locks
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.flows.services.flow_transaction import Journal

LEASE = timedelta(minutes=10)


@transactions.retried
def claim(*, tenant: str, escalation_id: UUID, user: Any) -> Problem | None:
    """Take or renew the claim; None when it is held now. A live claim of someone else is a 409."""
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    row = locked.escalation
    if row.state != State.OPEN:
        return Problem(code=ProblemCode.ALREADY_DECIDED, detail="This escalation is no longer open.")
    is_live = row.claimed_until is not None and row.claimed_until > locked.at
    if is_live and row.claimed_by_id != user.pk:
        return Problem(code=ProblemCode.CLAIMED, detail=f"Claimed by {row.claimed_by}. You can still decide.")
    row.claimed_by, row.claimed_until = user, locked.at + LEASE
    row.save(update_fields=["claimed_by", "claimed_until"])
    _record(locked, user, events.EscalationClaimed(escalation_id=str(row.pk), renewed=is_live))
    return None


@transactions.retried
def release(*, tenant: str, escalation_id: UUID, user: Any) -> Problem | None:
    """Give the claim back; releasing what one does not hold changes nothing."""
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    row = locked.escalation
    if row.claimed_by_id == user.pk:
        row.claimed_by, row.claimed_until = None, None
        row.save(update_fields=["claimed_by", "claimed_until"])
        _record(locked, user, events.EscalationReleased(escalation_id=str(row.pk)))
    return None


def _record(locked: escalation_locks.LockedEscalation, user: Any, event: events.Event) -> None:
    journal = Journal(flow=locked.flow, actor=actors.user(user.pk), at=locked.at)
    journal.add(event)
    journal.write()
