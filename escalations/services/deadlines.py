"""What time does to escalations: a deadline aborts, and never approves."""

import logging
from uuid import UUID

from audit import actors, events
from escalations.contracts import FirstEnd, Occasion, State
from escalations.models import Escalation
from escalations.services import drift_scan, escalation_locks, first_decisions, questions
from escalations.services.escalation_locks import LockedEscalation
from escalations.services.notices import outbox
from runtime.contracts.reasons import Reason
from runtime.contracts.states import FeedbackType, FlowState
from runtime.core import clock, transactions
from runtime.flows.services.flow_transaction import Journal

log = logging.getLogger(__name__)
BATCH = 200


def sweep() -> int:
    """Abort what was not decided in time, queue reminders of the rest, and check for drifted evidence.

    Returns how many were aborted.

    Questions that were waited for long enough are closed before it.
    Ids are chosen without a lock; each escalation is then its own transaction, so that one poisoned row
    cannot keep the others alive past their deadline.
    """
    questions.stop_all_overdue()
    due = Escalation.objects.filter(state=State.OPEN, deadline_at__lt=clock.now()).order_by("deadline_at")
    aborted = 0
    for escalation_id, tenant in list(due.values_list("escalation_id", "tenant")[:BATCH]):
        try:
            aborted += _expire_one(escalation_id, tenant)
        except Exception:
            log.exception("escalation %s could not be ended", escalation_id)
    outbox.queue_due()
    drift_scan.revise_open(again_s=drift_scan.LOOK_AGAIN_S)
    return aborted


def abort_expired(locked: LockedEscalation, journal: Journal) -> None:
    """End an escalation whose deadline has passed; the caller writes the journal."""
    row = locked.escalation
    journal.add(*questions.stop_overdue(escalation=row, at=journal.at))
    row.state, row.resolved_at, row.resolution = State.EXPIRED, journal.at, State.EXPIRED.value
    row.version += 1
    row.save(update_fields=["state", "resolved_at", "resolution", "version"])
    outbox.queue(row, occasion=Occasion.CLOSED, at=journal.at)
    journal.add(*first_decisions.end(escalation=row, why=FirstEnd.DEADLINE_PASSED))
    journal.add(events.EscalationExpired(escalation_id=str(row.pk)))
    journal.notify_agent(
        FeedbackType.ESCALATION_RESOLVED,
        {"escalation_id": str(row.pk), "action": "ABORT", "reason": Reason.DEADLINE_PASSED.value},
    )
    journal.transition(FlowState.ABORTED, reason=Reason.DEADLINE_PASSED)
    journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": Reason.DEADLINE_PASSED.value})


@transactions.retried
def _expire_one(escalation_id: UUID, tenant: str) -> int:
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None or locked.escalation.state != State.OPEN or not locked.is_past_deadline:
        return 0
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=locked.at)
    abort_expired(locked, journal)
    journal.write()
    return 1
