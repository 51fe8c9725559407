"""Messages to the registry of capabilities: what is offered, who offers it, and how a provider is."""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical
from runtime.contracts.message import MAX_BYTES, Envelope, ErrorCode, MessageType
from runtime.contracts.message_answers import MessageAnswer
from runtime.contracts.message_payloads import (
    PAYLOADS,
    CapabilityAdvertise,
    CapabilityQuery,
    Heartbeat,
)
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.models import Mailbox, Message
from runtime.conversations.queries import capability_list
from runtime.conversations.services import capabilities, conversation_journal, posting
from runtime.conversations.services.posting import Received
from runtime.core import ids
from runtime.kernel import conversation as rules
from runtime.kernel.capability_matching import Wanted
from runtime.kernel.conversation import Span
from runtime.registry.models import Agent

# Of the registry's answers: each of its headers is bounded, and together they are shorter than this.
ROOM_FOR_HEADERS: Final = 1024


def receive(
    *, sender: Agent, received: Received, key_id: str, flow_id: UUID | None = None
) -> MessageAnswer | Problem:
    """Take a message to the registry, in the caller's transaction; a query is answered into the mailbox."""
    payload = received.payload
    if isinstance(payload, CapabilityAdvertise):
        refused = capabilities.refuse_advertising(sender, payload)
        if refused is not None:
            return refused
    entered = posting.enter_alone(sender, received.headers)
    if isinstance(entered, Problem):
        return entered
    journal, span = entered
    mailbox = None
    if isinstance(payload, CapabilityQuery):
        # Locked before the query is stored: what takes the last place meanwhile would leave it unanswered.
        mailbox = posting.lock_mailbox(sender, at=journal.at)
        if mailbox is None:
            detail = "Your own mailbox is full, so there is no room for the answer. Take your messages first."
            return Problem(code=ProblemCode.RATE_LIMITED, detail=detail)
    row = posting.store(
        journal,
        span,
        received=received,
        sender=sender,
        recipient=None,
        number=None,
        key_id=key_id,
        flow_id=flow_id,
    )
    message_id = received.headers.message_id
    match payload:
        case CapabilityAdvertise():
            capabilities.advertise(
                provider=sender,
                claims=payload,
                payload=received.envelope.payload,
                message_id=message_id,
                at=journal.at,
            )
        case Heartbeat():
            capabilities.hear(provider=sender, beat=payload, message_id=message_id, at=journal.at)
        case CapabilityQuery() if mailbox is not None:
            _resolve(mailbox, row, span, payload, ttl=received.headers.ttl)
    return posting.answer_of(row)


def wanted_of(asked: CapabilityQuery) -> Wanted:
    """What a query asks for, as the kernel compares it."""
    limits = asked.constraints
    return Wanted(
        capability_name=asked.capability_name,
        latency_ms=limits.latency_ms,
        cost_ceiling=limits.cost_ceiling,
        jurisdiction=limits.jurisdiction,
        required_schema=asked.required_schema,
    )


def _resolve(mailbox: Mailbox, query: Message, span: Span, asked: CapabilityQuery, *, ttl: int) -> None:
    """Answer a query with who offers it, or with an Error that nobody does."""
    agent = mailbox.agent
    named = capability_list.resolve(agent=agent, wanted=wanted_of(asked), at=query.sent_at)
    records = list(_fitting(capability_list.record_of(each, at=query.sent_at) for each in named))
    if records:
        kind = MessageType.CAPABILITY_RESOLUTION
        payload: dict[str, Any] = {"providers": records}
    else:
        kind = MessageType.ERROR
        payload = {
            "code": ErrorCode.CAPABILITY_NOT_FOUND.value,
            "message": "No agent that you may ask offers this within these constraints.",
            "retriable": True,
        }
    headers = {
        "message_id": ids.new_ulid(),
        "message_type": kind.value,
        "conversation_id": query.conversation.name,
        "correlation_id": query.message_id,
        "from_agent_id": None,
        "to_agent_id": agent.agent_id,
        "ttl": ttl,
        "protocol_version": {"min_supported": str(rules.FIRST), "max_supported": str(span.high)},
    }
    body = canonical.encode({"headers": headers, "payload": payload})
    # As an envelope it has a sender: the registry has no id that an agent could have too.
    envelope = Envelope.model_validate_json(
        canonical.encode({"headers": headers | {"from_agent_id": "registry"}, "payload": payload})
    )
    form = PAYLOADS[kind].model_validate_json(canonical.encode(payload))
    journal = conversation_journal.begin(conversation=query.conversation, actor=actors.SYSTEM)
    posting.put_into_mailbox(
        mailbox,
        journal,
        span,
        received=Received(body=body, envelope=envelope, payload=form),
        sender=None,
        key_id="",
    )


def _fitting(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those that one message holds, the best first: claims may be as long as a message themselves."""
    room = MAX_BYTES - ROOM_FOR_HEADERS
    for record in records:
        size = len(canonical.encode(record)) + 1
        if size <= room:
            room -= size
            yield record
