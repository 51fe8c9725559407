"""Reading a mailbox and acknowledging: at least once to whoever reads, taken by one."""

from datetime import datetime

from audit import actors, events
from audit.live import hints
from runtime.contracts.message import DeadReason, MessageState
from runtime.contracts.message_answers import AcknowledgeAnswer, Delivered, MessagesAnswer
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.source_labels import LabelSource
from runtime.conversations.models import Message
from runtime.conversations.queries import mailboxes, standing
from runtime.conversations.services import conversation_journal
from runtime.core import clock, transactions
from runtime.registry.models import Agent, Session
from runtime.registry.services import agent_labels

AT_ONCE = 100


def stream_of(agent: Agent) -> str:
    """What to listen to for new messages: a name for hints, under which no entry is written."""
    return f"mailbox:{agent.agent_id}"


def hint_after_commit(recipient: Agent, number: int) -> None:
    """Wake who waits for the recipient's messages."""
    hints.hint_after_commit(tenant=recipient.tenant, streams=[stream_of(recipient)], seq=number)


def read(*, session: Session, after: int) -> MessagesAnswer | Problem:
    """The messages past `after` that nobody has acknowledged; those whose time is over die first.

    A message that is not acknowledged is given again to whoever asks from before it. 403 or 503 for an agent
    that is held: it is given nothing.
    """
    agent = session.agent
    refused = standing.refuse_work(agent)
    if refused is not None:
        return refused
    at = clock.now()
    for overdue in mailboxes.list_overdue(at=at, limit=AT_ONCE, agent=agent):
        bury(overdue, reason=DeadReason.EXPIRED)
    found = mailboxes.open_all(mailboxes.waiting(agent, after=after, at=at))
    for opened in found:
        if opened.fault is not None:
            bury(opened.row.pk, reason=opened.fault)
    by_conversation: dict[str, dict[str, None]] = {}
    for opened in found:
        if opened.envelope is not None and opened.labels:
            by_conversation.setdefault(opened.row.conversation.name, {}).update(dict.fromkeys(opened.labels))
    for name, labels in by_conversation.items():
        # Before it is given them: a crash in between tells of labels of messages that were not read.
        agent_labels.receive(agent=agent, labels=labels, because=LabelSource.MESSAGE, source=name)
    given = tuple(
        Delivered(
            number=opened.row.number or 0,
            sent_at=opened.row.sent_at,
            expires_at=opened.row.expires_at,
            protocol_version=opened.row.protocol_version,
            verified_key_id=opened.row.key_id or None,
            headers=opened.envelope["headers"],
            payload=opened.envelope["payload"],
        )
        for opened in found
        if opened.envelope is not None
    )
    return MessagesAnswer(messages=given, next=max((row.number for row in given), default=after))


def has_news(*, agent: Agent, after: int) -> bool:
    """Whether `read` has something to return, or to refuse; writes nothing."""
    if standing.refuse_work(agent) is not None:
        return True
    return bool(mailboxes.waiting(agent, after=after, at=clock.now()))


@transactions.retried
def acknowledge(*, session: Session, message_id: str) -> AcknowledgeAnswer | Problem:
    """Take a message of the agent's mailbox. Of two that do so at once, one is told that it has it.

    404 for no message of this mailbox, 410 for one that died before, 403 or 503 for an agent that is held.
    """
    agent = session.agent
    refused = standing.refuse_work(agent)
    if refused is not None:
        return refused
    row = Message.objects.filter(tenant=agent.tenant, recipient=agent, message_id=message_id).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="The mailbox has no message of this id.")
    journal = conversation_journal.begin(
        conversation=conversation_journal.lock(row.conversation_id), actor=actors.agent(agent.agent_id)
    )
    # Under the lock: a sweeper or another instance may have ended it meanwhile.
    row.refresh_from_db()
    if row.state == MessageState.WAITING:
        if row.expires_at <= journal.at:
            journal.bury(row, DeadReason.EXPIRED)
        else:
            _take(row, session, journal)
        journal.write()
        row.refresh_from_db()
    if row.state == MessageState.DEAD:
        detail = f"The message became a dead letter: {row.reason}. It must not be worked on."
        return Problem(code=ProblemCode.MESSAGE_DEAD, detail=detail)
    return AcknowledgeAnswer(
        message_id=row.message_id,
        state=MessageState(row.state),
        ended_at=_ended(row),
        taken_here=row.taken_in == session.token_id,
    )


@transactions.retried
def bury(pk: int, *, reason: DeadReason = DeadReason.EXPIRED) -> bool:
    """Make a message a dead letter; False where it waits no longer, or its time is not over after all."""
    row = Message.objects.filter(pk=pk).first()
    if row is None or row.state != MessageState.WAITING:
        return False
    conversation = conversation_journal.lock(row.conversation_id)
    journal = conversation_journal.begin(conversation=conversation, actor=actors.SYSTEM)
    if reason is DeadReason.EXPIRED and row.expires_at > journal.at:
        return False
    buried = journal.bury(row, reason)
    journal.write()
    return buried


def _take(row: Message, session: Session, journal: conversation_journal.ConversationJournal) -> None:
    waits = Message.objects.filter(pk=row.pk, state=MessageState.WAITING)
    if not waits.update(state=MessageState.TAKEN, ended_at=journal.at, taken_in=session.token_id):
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.MessageTaken(
            conversation_id=str(journal.conversation.pk), message_id=row.message_id, session=session.token_id
        )
    )


def _ended(row: Message) -> datetime:
    if row.ended_at is None:
        raise ValueError("a message that was taken has an end")
    return row.ended_at
