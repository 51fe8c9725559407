"""Conversations, messages and mailboxes against the entries about them, for `verify_ledger`."""

from collections import Counter
from collections.abc import Callable, Mapping

from audit import actors
from audit.events import Kind
from audit.verification.row_checks import Entry, Found
from runtime.contracts.message import ConversationState, MessageState
from runtime.conversations.models import Conversation, Mailbox, Message
from runtime.conversations.queries import mailboxes
from runtime.verification.last_entries import LastEntryRows, Subjects

AT_ONCE = 500

_SUBJECTS: Subjects = {
    Kind.CONVERSATION_OPENED: [("conversation", ("conversation_id",))],
    Kind.CONVERSATION_SLOWED: [("slowing", ("conversation_id",))],
    Kind.CONVERSATION_STOPPED: [("stopping", ("conversation_id",))],
    Kind.MESSAGE_SENT: [("message", ("message_id",)), ("last message", ("conversation_id",))],
    Kind.MESSAGE_TAKEN: [("message end", ("message_id",))],
    Kind.MESSAGE_DEAD: [("message end", ("message_id",))],
}


class ConversationRowCheck(LastEntryRows):
    """Every column of the three tables, both ways."""

    kinds = frozenset(_SUBJECTS)
    kept_by = _SUBJECTS

    def __init__(self) -> None:
        super().__init__()
        self._between_agents: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], Entry] = {}

    def take(self, entry: Entry) -> None:
        """Keep the last entry about each subject, and count the messages."""
        super().take(entry)
        if entry.kind != Kind.MESSAGE_SENT:
            return
        said = entry.payload
        between = said["from_agent_id"] is not None and said["to_agent_id"] is not None
        self._between_agents[said["conversation_id"]] += between
        if said["to_agent_id"] is not None:
            place = (entry.tenant, said["to_agent_id"])
            held = self._numbers.get(place)
            if held is None or held.payload["number"] < said["number"]:
                self._numbers[place] = entry

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """What compares each table."""
        return {
            "conversations": self._conversations,
            "messages": self._messages,
            "mailboxes": self._mailboxes,
        }

    def _conversations(self, found: Found) -> None:
        rows = Conversation.objects.select_related("opened_by")
        slowed, stopped, spoke = self.of("slowing"), self.of("stopping"), self.of("last message")
        named = ((row.tenant, (str(row.pk),), row) for row in rows.iterator(chunk_size=AT_ONCE))
        for entry, row in self.rows(found, "conversation", named):
            place = (row.tenant, (str(row.pk),))
            found.same(entry, "conversation.stream", entry.stream, actors.conversation(row.pk))
            found.same(entry, "conversation.name", entry.payload["name"], row.name)
            found.same(entry, "conversation.opened_by", entry.payload["agent_id"], row.opened_by.agent_id)
            found.by_then(entry, entry, "conversation.opened_at", row.opened_at)
            end = stopped.get(place)
            state = ConversationState.OPEN if end is None else ConversationState.STOPPED
            found.same(end or entry, "conversation.state", state.value, row.state)
            found.by_then(end, entry, "conversation.stopped_at", row.stopped_at)
            found.by_then(slowed.get(place), entry, "conversation.slowed_at", row.slowed_at)
            last = spoke.get(place, entry)
            found.same(last, "conversation.low", last.payload.get("low"), row.low)
            found.same(last, "conversation.high", last.payload.get("high"), row.high)
            sent = self._between_agents[str(row.pk)]
            found.same(last, "conversation.messages_sent", sent, row.messages_sent)

    def _messages(self, found: Found) -> None:
        rows = Message.objects.select_related("sender", "recipient")
        ends = self.of("message end")
        named = ((row.tenant, (row.message_id,), row) for row in rows.iterator(chunk_size=AT_ONCE))
        for entry, row in self.rows(found, "message", named):
            _compare_message(found, entry, row)
            _compare_end(found, entry, ends.get((row.tenant, (row.message_id,))), row)

    def _mailboxes(self, found: Found) -> None:
        entries = dict(self._numbers)
        for row in Mailbox.objects.select_related("agent"):
            entry = entries.pop((row.agent.tenant, row.agent.agent_id), None)
            if entry is not None:
                found.same(entry, "mailbox.last_number", entry.payload["number"], row.last_number)
            elif row.last_number:
                stream = actors.agent(row.agent.agent_id)
                found.without_entry(row.agent.tenant, stream, f"the mailbox of {row.agent.agent_id}")
        for (_, agent_id), entry in entries.items():
            found.missing(entry, f"the mailbox of {agent_id}")


def _compare_message(found: Found, entry: Entry, row: Message) -> None:
    found.same(entry, "message.entry_seq", entry.seq, row.entry_seq)
    for name, recorded, held in mailboxes.columns(entry.payload, row):
        found.same(entry, f"message.{name}", recorded, held)
    found.by_then(entry, entry, "message.sent_at", row.sent_at)


def _compare_end(found: Found, entry: Entry, end: Entry | None, row: Message) -> None:
    if end is None:
        is_taken = entry.payload["to_agent_id"] is None
        state = MessageState.TAKEN if is_taken else MessageState.WAITING
        ended: Entry | None = entry if is_taken else None
    else:
        state = MessageState.TAKEN if end.kind == Kind.MESSAGE_TAKEN else MessageState.DEAD
        ended = end
    said = {} if end is None else end.payload
    at = end or entry
    found.same(at, "message.state", state.value, row.state)
    found.by_then(ended, entry, "message.ended_at", row.ended_at)
    found.same(at, "message.taken_in", said.get("session", ""), row.taken_in)
    found.same(at, "message.reason", said.get("reason", ""), row.reason)
