"""Answers of those who were consulted: from whom, in time, once, and of the form that was asked for."""

from decimal import Decimal

from audit import actors
from runtime.advice.models import Consultation
from runtime.advice.queries import consultations
from runtime.advice.services import consultations as advice
from runtime.contracts.consultation import MICROS, ConsultationState
from runtime.contracts.message import ANSWERS, Headers, MessageType
from runtime.contracts.message_payloads import ConsultationResponse
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import ENDED
from runtime.conversations.models import Message
from runtime.conversations.queries import mailboxes
from runtime.conversations.services.posting import Received
from runtime.core import clock
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import schemas
from runtime.registry.models import Agent


def lock_question(*, tenant: str, headers: Headers) -> Consultation | None:
    """The consultation that a message answers, with its flow locked; None for any other message.

    Called before the sender is locked: flows come first in the order of locks.
    """
    if headers.message_type not in ANSWERS or headers.correlation_id is None:
        return None
    known = consultations.find_question(tenant=tenant, message_id=headers.correlation_id)
    if known is None:
        return None
    flow = locks.lock_one(dfid=known.flow_id)
    row = consultations.find_question(tenant=tenant, message_id=headers.correlation_id)
    if flow is None or row is None:
        return None
    agent = row.flow.agent
    row.flow, row.flow.agent = flow, agent
    return row


def refuse(row: Consultation, *, sender: Agent, received: Received) -> Problem | None:
    """Why an answer is not taken: 403 from or to anybody else or elsewhere, 409 for a late or second one.

    422 for an answer of another form than was asked for, 429 for one that costs more than it may.
    """
    headers, asker = received.headers, row.flow.agent
    place = (row.provider_id, asker.agent_id, row.request.conversation.name)
    if place != (sender.pk, headers.to_agent_id, headers.conversation_id):
        detail = (
            "Only the provider that was asked answers, to the agent that asked, in the same conversation."
        )
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if row.state != ConsultationState.ASKED or row.deadline <= clock.now() or row.flow.state in ENDED:
        said = "was answered before" if row.answer_id is not None else "is over, or its flow has ended"
        detail = f"The consultation {said}. This answer is not taken."
        return Problem(code=ProblemCode.CONSULTATION_ENDED, detail=detail)
    payload = received.payload
    return _refuse_form(row, payload) if isinstance(payload, ConsultationResponse) else None


def take(row: Consultation, *, received: Received) -> None:
    """End the consultation by an answer that was delivered, with its entry in the flow."""
    journal = Journal(flow=row.flow, actor=actors.agent(row.provider.agent_id), at=clock.now())
    message = Message.objects.get(tenant=row.tenant, message_id=received.headers.message_id)
    is_answer = received.headers.message_type is MessageType.CONSULTATION_RESPONSE
    advice.end(
        journal,
        row,
        ConsultationState.ANSWERED if is_answer else ConsultationState.DECLINED,
        answer_pk=message.pk,
        message_id=message.message_id,
        commitment=message.commitment,
    )
    journal.write()


def _refuse_form(row: Consultation, payload: ConsultationResponse) -> Problem | None:
    if payload.cost is not None and Decimal(str(payload.cost)) * MICROS > row.cost_micros:
        detail = "The answer costs more than the `cost_units` of the question."
        return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail)
    [question] = mailboxes.open_all([row.request])
    if question.envelope is None:
        detail = "The question was erased, or does not match the ledger, so nothing can answer it."
        return Problem(code=ProblemCode.CONSULTATION_ENDED, detail=detail)
    wrong = schemas.violations(question.envelope["payload"]["expected_output_schema"], payload.answer)
    if not wrong:
        return None
    return Problem(
        code=ProblemCode.INVALID_SCHEMA,
        detail="The answer does not fit the `expected_output_schema` of the question. See `violations`.",
        violations=tuple(
            Violation(pointer=f"/payload/answer{each.pointer}", message=each.message) for each in wrong
        ),
    )
