"""Taking a decision back while its undo window is open: nothing has run, and the agent knows nothing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from audit import actors, events
from escalations import policy
from escalations.contracts import DecisionState, Occasion, State
from escalations.models import Escalation
from escalations.policy import Person
from escalations.services import escalation_locks
from escalations.services.notices import outbox
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import FlowState
from runtime.core import transactions
from runtime.execution.services import saga, undo_windows
from runtime.flows.models import Flow, Intent
from runtime.flows.services.flow_transaction import Journal

# Whoever takes a decision back has at least this long to make another.
LEAST_LEFT = timedelta(minutes=2)
TAKE_BACK = "TAKE_BACK"


@dataclass(frozen=True)
class TakenBack:
    """The escalation is open again; `deadline_at` is None where it has none."""

    deadline_at: datetime | None


def get_open_window(*, escalation: Escalation, at: datetime) -> Intent | None:
    """Return the intent that still waits for the end of the undo window of this escalation's decision."""
    if escalation.state != State.RESOLVED or escalation.decision is None:
        return None
    return undo_windows.find_open(flow=escalation.flow, at=at)


@transactions.retried
def take_back(*, tenant: str, escalation_id: UUID, person: Person) -> TakenBack | Problem:
    """Take back the decision in effect, or say with a Problem why it is too late.

    Whoever may decide may do it, since it only stops. The decision stays, signed, as TAKEN_BACK.
    """
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    row, flow = locked.escalation, locked.flow
    journal = Journal(flow=flow, actor=actors.user(person.user_id), at=locked.at)
    intent = get_open_window(escalation=row, at=journal.at)
    barred = policy.role_missing(person)
    if barred is not None:
        refused = Problem(code=barred.code, detail=barred.why, dfid=str(flow.dfid))
    elif intent is None:
        refused = _too_late(row, flow)
    else:
        return _reopen(row, intent, journal)
    journal.add(events.EscalationRefused(escalation_id=str(row.pk), action=TAKE_BACK, code=refused.code))
    journal.write()
    return refused


def _reopen(row: Escalation, intent: Intent, journal: Journal) -> TakenBack:
    undo_windows.take_back(journal=journal, intent=intent)
    decision = row.decision
    if decision is None:
        raise LookupError("an open undo window is that of a decision")
    decision.state = DecisionState.TAKEN_BACK
    decision.save(update_fields=["state"])
    if row.deadline_at is not None:
        row.deadline_at = max(row.deadline_at, journal.at + LEAST_LEFT)
    row.state, row.resolved_at, row.resolution = State.OPEN, None, ""
    row.version += 1
    row.save(update_fields=["state", "resolved_at", "resolution", "version", "deadline_at"])
    journal.add(
        events.EscalationReopened(
            escalation_id=str(row.pk), sequence=decision.sequence, deadline_at=row.deadline_at
        )
    )
    journal.transition(FlowState.ESCALATED, reason=row.reason)
    saga.lock_while_paused(journal, intent)
    journal.write()
    outbox.withdraw(row, occasion=Occasion.CLOSED)
    return TakenBack(deadline_at=row.deadline_at)


def _too_late(row: Escalation, flow: Flow) -> Problem:
    detail = "There is no decision to take back: this escalation is open."
    if row.state != State.OPEN:
        detail = "It is too late to take this back. What ran is on the timeline of its flow."
    return Problem(code=ProblemCode.UNDO_OVER, detail=detail, dfid=str(flow.dfid))
