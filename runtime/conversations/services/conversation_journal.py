"""A conversation under its lock: what changes in it, and the entries that record it, in one transaction."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from audit import actors, events, ledger
from runtime.contracts.message import ConversationState, DeadReason, MessageState
from runtime.conversations.models import Conversation, Message
from runtime.core import clock
from runtime.kernel import conversation as rules
from runtime.kernel.conversation import Bound


@dataclass(kw_only=True)
class ConversationJournal:
    """What happens in one conversation at one time; `write` appends it to the conversation's stream."""

    conversation: Conversation
    actor: str
    at: datetime
    is_new: bool = False
    _events: list[events.Event] = field(default_factory=list)

    def add(self, event: events.Event) -> None:
        """Record this when it is written, after what was added before."""
        self._events.append(event)

    def bury(self, row: Message, reason: DeadReason) -> bool:
        """Make a waiting message a dead letter; False where it waits no longer."""
        waits = Message.objects.filter(pk=row.pk, state=MessageState.WAITING)
        if not waits.update(state=MessageState.DEAD, reason=reason, ended_at=self.at):
            return False
        self.add(
            events.MessageDead(
                conversation_id=str(self.conversation.pk), message_id=row.message_id, reason=reason
            )
        )
        return True

    def stop(self) -> None:
        """End the conversation for good, with what still waits in it."""
        waiting = Message.objects.filter(conversation=self.conversation, state=MessageState.WAITING)
        dead = sum(self.bury(row, DeadReason.CONVERSATION_STOPPED) for row in waiting.order_by("pk"))
        row = self.conversation
        row.state, row.stopped_at = ConversationState.STOPPED, self.at
        row.save(update_fields=["state", "stopped_at"])
        self.add(
            events.ConversationStopped(
                conversation_id=str(row.pk),
                reason=Bound.TOO_MANY_MESSAGES.value,
                most=rules.MOST_MESSAGES,
                dead=dead,
            )
        )

    def slow(self) -> None:
        """Note once in a window that a message was refused for coming too soon."""
        row = self.conversation
        if row.slowed_at is not None and (self.at - row.slowed_at).total_seconds() < rules.WINDOW_S:
            return
        row.slowed_at = self.at
        row.save(update_fields=["slowed_at"])
        self.add(
            events.ConversationSlowed(
                conversation_id=str(row.pk), most=rules.MOST_AT_ONCE, window_s=rules.WINDOW_S
            )
        )

    def write(self) -> int:
        """Append what was added; the number of the last entry. The last lock is the stream's head."""
        head = ledger.append_to(
            tenant=self.conversation.tenant,
            stream=actors.conversation(self.conversation.pk),
            actor=self.actor,
            at=self.at,
            events=self._events,
        )
        return head.seq


def begin(*, conversation: Conversation, actor: str, is_new: bool = False) -> ConversationJournal:
    """A journal whose time is that of its entries. The caller holds the conversation's lock, or makes it."""
    stream = actors.conversation(conversation.pk)
    at = ledger.time_of_next(tenant=conversation.tenant, stream=stream, at=clock.now())
    return ConversationJournal(conversation=conversation, actor=actor, at=at, is_new=is_new)


def lock(conversation_pk: UUID) -> Conversation:
    """The conversation, locked for this transaction."""
    return Conversation.objects.select_for_update().get(pk=conversation_pk)
