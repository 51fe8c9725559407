"""Sending a message: the whole story on one page, from who may to what is answered."""

from typing import Any
from uuid import UUID

from audit import canonical, queries
from runtime.advice.models import Consultation
from runtime.contracts.message_answers import MessageAnswer
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.models import Message
from runtime.conversations.queries import standing
from runtime.conversations.services import (
    consultation_answers,
    message_keys,
    posting,
    registry_messages,
)
from runtime.conversations.services.posting import Received
from runtime.core import transactions
from runtime.flows.models import Flow
from runtime.registry.models import Agent, Session
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.stops.services import call_gate


@transactions.retried
def send(*, session: Session, received: Received) -> MessageAnswer | Problem:
    """Put a message into the mailbox of its recipient, once; the same message again gets the same answer.

    The codes of a refusal are those of IAE 3.4.4: 403 UNAUTHORIZED, 404 CAPABILITY_NOT_FOUND, 406
    VERSION_UNSUPPORTED, 429 RATE_LIMITED or BUDGET_EXCEEDED, 503 TEMPORARILY_UNAVAILABLE; beside them 409
    MESSAGE_ID_REUSED, 404 FLOW_NOT_FOUND for a `dfid` of another agent, and 403 for a sender that is not
    ACTIVE. What answers a consultation is bound to it: `consultation_answers.refuse` says what is not taken.
    """
    headers, tenant = received.headers, session.agent.tenant
    if headers.from_agent_id != session.agent.agent_id:
        detail = "The session is that of another agent than `from_agent_id`."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    question = consultation_answers.lock_question(tenant=tenant, headers=headers)
    sender = agents.lock_by_pk(pk=session.agent.pk)
    call_gate.hold_open(tenant=tenant)
    refused = standing.refuse_work(sender)
    if refused is not None:
        return refused
    earlier = Message.objects.of(tenant).filter(message_id=headers.message_id).first()
    if earlier is not None:
        return _repeat(earlier, sender, received)
    key_id = _check_grants(sender, received)
    if isinstance(key_id, Problem):
        return key_id
    flow = None if headers.dfid is None else Flow.objects.filter(pk=headers.dfid, agent=sender).first()
    if flow is None and headers.dfid is not None:
        return Problem(code=ProblemCode.FLOW_NOT_FOUND, detail="The sender has no flow with this `dfid`.")
    flow_id = None if flow is None else flow.pk
    if headers.to_agent_id is None:
        return registry_messages.receive(sender=sender, received=received, key_id=key_id, flow_id=flow_id)
    return _deliver(sender, received, key_id=key_id, flow_id=flow_id, question=question)


def _deliver(
    sender: Agent,
    received: Received,
    *,
    key_id: str,
    flow_id: UUID | None,
    question: Consultation | None,
) -> MessageAnswer | Problem:
    """Put it into the mailbox; the answer to a `question` also ends the consultation."""
    recipient = standing.find_recipient(tenant=sender.tenant, agent_id=received.headers.to_agent_id or "")
    if isinstance(recipient, Problem):
        return recipient
    if question is not None:
        refused = consultation_answers.refuse(question, sender=sender, received=received)
        if refused is not None:
            return refused
        # It is about the flow that asked: with it, its words are erased.
        flow_id = question.flow_id
    sent = posting.deliver(
        sender=sender, recipient=recipient, received=received, key_id=key_id, flow_id=flow_id
    )
    if question is not None and not isinstance(sent, Problem):
        consultation_answers.take(question, received=received)
    return sent


def _repeat(earlier: Message, sender: Agent, received: Received) -> MessageAnswer | Problem:
    """The earlier answer, to the same sender for the same bytes."""
    bodies: dict[str, Any] = queries.list_bodies(tenant=earlier.tenant, commitments=[earlier.commitment])
    if earlier.sender_id != sender.pk or bodies.get(earlier.commitment) != received.body:
        detail = "Another message has this message_id. Give each message an id of its own."
        return Problem(code=ProblemCode.MESSAGE_ID_REUSED, detail=detail)
    return posting.answer_of(earlier)


def _check_grants(sender: Agent, received: Received) -> str | Problem:
    """Whether the manifest lets it be sent; the key that signed it, by name, empty where none has to."""
    manifest, to = granted_kinds.manifest_of(sender), received.headers.to_agent_id
    if manifest is None:
        detail = "This agent has no active manifest, so it may message nobody."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if to is not None and manifest.messages_to is not None and to not in manifest.messages_to:
        detail = "The active manifest does not name the recipient in `messages_to`."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if manifest.message_key is None:
        return ""
    key_id = message_keys.verified_key(manifest.message_key, canonical.decode(received.body))
    if key_id is None:
        detail = "The active manifest has a `message_key`: the message needs a valid signature by it."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    return key_id
