"""The time that a question to the agent is out: the deadline of its escalation is paused meanwhile."""

import logging
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings

from audit import actors, events
from escalations import policy
from escalations.contracts import Closing, State
from escalations.models import Escalation, Question
from escalations.models.question import IS_OPEN
from escalations.services import escalation_locks
from runtime.core import clock, transactions
from runtime.flows.services.flow_transaction import Journal

_MS = timedelta(milliseconds=1)
_BATCH = 200

_log = logging.getLogger(__name__)


def start(*, escalation: Escalation, at: datetime) -> datetime:
    """Stop the clock for one question; returns until when. The caller holds the escalation's lock."""
    if escalation.deadline_at is None:
        raise ValueError("an escalation without a deadline has no clock to stop")
    closed = Question.objects.filter(escalation=escalation, closed_at__isnull=False)
    waited = sum(  # for how long earlier questions stopped the clock
        (
            closed_at - asked_at
            for asked_at, closed_at in closed.values_list("asked_at", "closed_at")
            if closed_at
        ),
        timedelta(),
    )
    term = escalation.deadline_at - escalation.opened_at - waited
    wait = _MS * policy.wait_ms(term_ms=term // _MS, longest_ms=settings.DIR_QUESTION_S * 1000)
    escalation.deadline_at += wait
    escalation.waiting_until = at + wait
    escalation.version += 1
    escalation.save(update_fields=["deadline_at", "waiting_until", "version"])
    return escalation.waiting_until


def close(*, question: Question, escalation: Escalation, at: datetime, why: Closing) -> None:
    """End the wait: the clock resumes where it was paused. Saves what `question` holds."""
    question.closed_at, question.closed_why = min(at, question.wait_until), why
    question.save(update_fields=["answer", "payload_ref", "answered_at", "closed_at", "closed_why"])
    if escalation.deadline_at is not None:
        escalation.deadline_at -= question.wait_until - question.closed_at
    escalation.waiting_until = None
    escalation.save(update_fields=["deadline_at", "waiting_until"])


def stop(*, escalation: Escalation, at: datetime, why: Closing) -> list[events.Event]:
    """Close the open question unanswered, where there is one; returns the entry for the journal."""
    question = get_open(escalation)
    if question is None:
        return []
    close(question=question, escalation=escalation, at=at, why=why)
    return [events.InformationClosed(escalation_id=str(escalation.pk), number=question.number, why=why)]


def stop_overdue(*, escalation: Escalation, at: datetime) -> list[events.Event]:
    """`stop`, where the wait has ended. The version stays, so that open forms remain valid."""
    if escalation.waiting_until is None or at <= escalation.waiting_until:
        return []
    return stop(escalation=escalation, at=at, why=Closing.WAIT_ENDED)


def get_open(escalation: Escalation) -> Question | None:
    """The question that is out."""
    return Question.objects.filter(IS_OPEN, escalation=escalation).first()


def stop_all_overdue() -> int:
    """Close every question that was waited for long enough; returns how many. For the sweeper."""
    due = Escalation.objects.filter(state=State.OPEN, waiting_until__lt=clock.now())
    closed = 0
    for escalation_id, tenant in list(due.values_list("escalation_id", "tenant")[:_BATCH]):
        try:
            closed += transactions.retry_on_conflict(partial(_stop_one, escalation_id, tenant))
        except Exception:
            _log.exception("the question of escalation %s could not be closed", escalation_id)
    return closed


def _stop_one(escalation_id: UUID, tenant: str) -> int:
    held = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if held is None or held.escalation.state != State.OPEN:
        return 0
    journal = Journal(flow=held.flow, actor=actors.SYSTEM, at=held.at)
    closed = stop_overdue(escalation=held.escalation, at=journal.at)
    if not closed:
        return 0
    journal.add(*closed)
    journal.write()
    return 1
