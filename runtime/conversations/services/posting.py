"""Putting a message into its conversation and a mailbox: what both ends need, and what is stored of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from audit import actors, events, ledger, row_locks
from audit.payload_keys import PayloadClass
from runtime.contracts.message import ConversationState, Envelope, Headers, MessageState, Open
from runtime.contracts.message_answers import MessageAnswer
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.models import Conversation, Mailbox, Message
from runtime.conversations.queries import mailboxes
from runtime.conversations.services import conversation_journal, delivering
from runtime.conversations.services.conversation_journal import ConversationJournal
from runtime.kernel import conversation as rules
from runtime.kernel.conversation import Bound, Span
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels

MOST_WAITING = 100
MOST_AGENTS = 8


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message as it came in: its canonical bytes, and what they say."""

    body: bytes
    envelope: Envelope
    payload: Open

    @property
    def headers(self) -> Headers:
        """Its headers."""
        return self.envelope.headers


def deliver(
    *, sender: Agent, recipient: Agent, received: Received, key_id: str, flow_id: UUID | None = None
) -> MessageAnswer | Problem:
    """Store a message between two agents that may send and receive, in the caller's transaction."""
    headers = received.headers
    joined = _join(sender, recipient, headers)
    if isinstance(joined, Problem):
        return joined
    journal, span = joined
    mailbox = lock_mailbox(recipient, at=journal.at)
    if mailbox is None:
        detail = f"The mailbox of {recipient.agent_id} is full: {MOST_WAITING} messages wait. Send it later."
        return Problem(code=ProblemCode.RATE_LIMITED, detail=detail)
    row = put_into_mailbox(
        mailbox, journal, span, received=received, sender=sender, key_id=key_id, flow_id=flow_id
    )
    return answer_of(row)


def lock_mailbox(recipient: Agent, *, at: datetime) -> Mailbox | None:
    """The mailbox, locked for this transaction, so that its next number is free; None where it is full."""
    mailbox = row_locks.lock_or_create(Mailbox.objects.filter(agent=recipient), agent=recipient)
    mailbox.agent = recipient
    return mailbox if mailboxes.count_waiting(recipient, at=at) < MOST_WAITING else None


def put_into_mailbox(
    mailbox: Mailbox,
    journal: ConversationJournal,
    span: Span,
    *,
    received: Received,
    sender: Agent | None,
    key_id: str,
    flow_id: UUID | None = None,
) -> Message:
    """Store a message as the next one of a mailbox that is locked and has room."""
    mailbox.last_number += 1
    mailbox.save(update_fields=["last_number"])
    row = store(
        journal,
        span,
        received=received,
        sender=sender,
        recipient=mailbox.agent,
        number=mailbox.last_number,
        key_id=key_id,
        flow_id=flow_id,
    )
    delivering.hint_after_commit(mailbox.agent, mailbox.last_number)
    return row


def store(
    journal: ConversationJournal,
    span: Span,
    *,
    received: Received,
    sender: Agent | None,
    recipient: Agent | None,
    number: int | None,
    key_id: str,
    flow_id: UUID | None = None,
) -> Message:
    """Write a message, its conversation and their entries. To the registry it is taken as it comes in."""
    conversation, headers = journal.conversation, received.headers
    ends = rules.deprecated_on(
        str(span.high), [] if journal.is_new else mailboxes.announced_ends(conversation)
    )
    expires_at = journal.at + timedelta(seconds=headers.ttl)
    commitment = ledger.commit_payload(
        tenant=conversation.tenant, data_class=PayloadClass.PARAMETERS, body=received.body
    )
    conversation.low, conversation.high = str(span.low), str(span.high)
    conversation.messages_sent += sender is not None and recipient is not None
    conversation.save(force_insert=journal.is_new)
    if journal.is_new:
        journal.add(
            events.ConversationOpened(
                conversation_id=str(conversation.pk),
                name=conversation.name,
                agent_id=conversation.opened_by.agent_id,
            )
        )
    journal.add(
        events.MessageSent(
            conversation_id=str(conversation.pk),
            message_id=headers.message_id,
            message_type=headers.message_type,
            from_agent_id=None if sender is None else sender.agent_id,
            to_agent_id=None if recipient is None else recipient.agent_id,
            correlation_id=headers.correlation_id or "",
            number=number,
            size_bytes=len(received.body),
            expires_at=expires_at,
            low=conversation.low,
            high=conversation.high,
            deprecated_on=ends,
            key_id=key_id,
            message_commitment=commitment,
            dfid=None if flow_id is None else str(flow_id),
            labels=() if sender is None else agent_labels.held_by(sender, at=journal.at),
        )
    )
    entry_seq = journal.write()
    return Message.objects.create(
        tenant=conversation.tenant,
        message_id=headers.message_id,
        conversation=conversation,
        message_type=headers.message_type,
        sender=sender,
        recipient=recipient,
        flow_id=flow_id,
        correlation_id=headers.correlation_id or "",
        number=number,
        commitment=commitment,
        size_bytes=len(received.body),
        protocol_version=conversation.high,
        deprecated_on=ends or "",
        key_id=key_id,
        sent_at=journal.at,
        expires_at=expires_at,
        entry_seq=entry_seq,
        state=MessageState.WAITING if recipient is not None else MessageState.TAKEN,
        ended_at=None if recipient is not None else journal.at,
    )


def answer_of(row: Message) -> MessageAnswer:
    """What the sender is told of a message; the same whenever it asks."""
    return MessageAnswer(
        message_id=row.message_id,
        conversation_id=row.conversation.name,
        sent_at=row.sent_at,
        expires_at=row.expires_at,
        protocol_version=row.protocol_version,
        deprecated_on=row.deprecated_on or None,
    )


def _join(sender: Agent, recipient: Agent, headers: Headers) -> tuple[ConversationJournal, Span] | Problem:
    """The conversation, locked or new, and the versions that its agents share with this message."""
    joined = enter_alone(sender, headers)
    if isinstance(joined, Problem) or joined[0].is_new:
        return joined
    journal, _ = joined
    conversation = journal.conversation
    if not mailboxes.is_part_of(conversation, recipient) and _count_agents(conversation) >= MOST_AGENTS:
        detail = f"A conversation has at most {MOST_AGENTS} agents. Begin another one."
        return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail)
    if rules.bound_of(sent=conversation.messages_sent, lately=0) is Bound.TOO_MANY_MESSAGES:
        journal.stop()
        journal.write()
        return _stopped()
    return joined


def enter_alone(sender: Agent, headers: Headers) -> tuple[ConversationJournal, Span] | Problem:
    """`enter` within the bounds that hold for messages to the registry too."""
    joined = enter(sender, headers)
    if isinstance(joined, Problem) or joined[0].is_new:
        return joined
    journal, _ = joined
    if not mailboxes.is_part_of(journal.conversation, sender):
        detail = "Only its own agents send in a conversation. Begin one with an id of its own."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if journal.conversation.state == ConversationState.STOPPED:
        return _stopped()
    if rules.bound_of(sent=0, lately=_count_lately(journal)) is Bound.TOO_FAST:
        journal.slow()
        journal.write()
        detail = (
            f"The conversation had {rules.MOST_AT_ONCE} messages within {rules.WINDOW_S} seconds. "
            "Send this one later."
        )
        return Problem(code=ProblemCode.RATE_LIMITED, detail=detail)
    return joined


def enter(sender: Agent, headers: Headers) -> tuple[ConversationJournal, Span] | Problem:
    """The conversation of a message, locked or about to be new; 406 where no version is left in common."""
    conversation = (
        Conversation.objects.of(sender.tenant)
        .select_for_update(of=("self",))
        .select_related("opened_by")
        .filter(name=headers.conversation_id)
        .first()
    )
    known = None
    if conversation is not None:
        known = Span(rules.parsed(conversation.low), rules.parsed(conversation.high))
    asked = headers.protocol_version
    span = rules.agree(known, asked.min_supported, asked.max_supported)
    if span is None:
        return Problem(
            code=ProblemCode.VERSION_UNSUPPORTED,
            detail="No protocol version of the range is one that the whole conversation understands.",
            supported=rules.SUPPORTED if known is None else str(known),
        )
    actor = actors.agent(sender.agent_id)
    if conversation is not None:
        return conversation_journal.begin(conversation=conversation, actor=actor), span
    new = Conversation(tenant=sender.tenant, name=headers.conversation_id, opened_by=sender)
    journal = conversation_journal.begin(conversation=new, actor=actor, is_new=True)
    new.opened_at = journal.at
    return journal, span


def _stopped() -> Problem:
    detail = (
        f"The conversation was stopped: it has {rules.MOST_MESSAGES} messages, the most that one may have. "
        "Begin another one, if there is more to say."
    )
    return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail)


def _count_agents(conversation: Conversation) -> int:
    rows = Message.objects.filter(conversation=conversation).order_by()
    named = {pk for pair in rows.values_list("sender", "recipient").distinct() for pk in pair}
    return len(named - {None})


def _count_lately(journal: ConversationJournal) -> int:
    since: datetime = journal.at - timedelta(seconds=rules.WINDOW_S)
    return Message.objects.filter(conversation=journal.conversation, sent_at__gt=since).count()
