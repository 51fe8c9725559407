"""Consultations in a flow: that one began, and how it ended. The messages themselves are sent above."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import actors, events
from runtime.advice.models import Consultation
from runtime.advice.queries import consultations
from runtime.contracts.advice import Consult
from runtime.contracts.consultation import ConsultationState
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who would be consulted, by agent id, and what asks them, in the same transaction."""

    providers: tuple[str, ...]
    send: Callable[[], Sequence[Consultation]]


# Whom the registry names for a question of an agent about some options; a Problem where that is nobody.
Planner = Callable[[Journal, Agent, Consult, list[dict[str, Any]]], Plan | Problem]


def begin(
    journal: Journal, *, row: Consultation, message_id: str, conversation_id: UUID, commitment: str
) -> None:
    """Store a question that was sent, with its entry in the flow, which the caller has locked."""
    row.save(force_insert=True)
    journal.add(
        events.ConsultationAsked(
            consultation_id=str(row.pk),
            provider=row.provider.agent_id,
            capability=row.capability,
            conversation_id=str(conversation_id),
            message_id=message_id,
            message_commitment=commitment,
            cost_micros=row.cost_micros,
            deadline=row.deadline,
        )
    )


def end(
    journal: Journal,
    row: Consultation,
    state: ConsultationState,
    *,
    answer_pk: int | None = None,
    message_id: str | None = None,
    commitment: str | None = None,
) -> None:
    """End a consultation that still waits; the caller has locked the flow. Raises for one that has ended."""
    waits = Consultation.objects.filter(pk=row.pk, state=ConsultationState.ASKED)
    if not waits.update(state=state, ended_at=journal.at, answer=answer_pk):
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.ConsultationEnded(
            consultation_id=str(row.pk),
            provider=row.provider.agent_id,
            state=state,
            message_id=message_id,
            message_commitment=commitment,
        )
    )


def end_overdue_in(journal: Journal, *, at: datetime) -> frozenset[str]:
    """End those of a locked flow whose deadline has passed; their ids: the entries come with the journal."""
    rows = consultations.list_rows(journal.flow)
    overdue = [row for row in rows if row.state == ConsultationState.ASKED and row.deadline <= at]
    for row in overdue:
        end(journal, row, ConsultationState.OVERDUE)
    return frozenset(str(row.pk) for row in overdue)


@transactions.retried
def expire(consultation_id: UUID) -> bool:
    """End one whose deadline has passed; False where it was answered meanwhile, or may still be."""
    dfid = Consultation.objects.filter(pk=consultation_id).values_list("flow", flat=True).first()
    flow = None if dfid is None else locks.lock_one(dfid=dfid)
    row = Consultation.objects.select_related("provider").filter(pk=consultation_id).first()
    if flow is None or row is None:
        return False
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    if row.state != ConsultationState.ASKED or row.deadline > journal.at:
        return False
    end(journal, row, ConsultationState.OVERDUE)
    journal.write()
    return True
