"""What waits in an agent's mailbox, compared with the entries that record it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from audit import actors, canonical, queries
from audit.chain import time_text
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.contracts.message import DeadReason, MessageState, MessageType
from runtime.conversations.models import Conversation, Message
from runtime.registry.models import Agent

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A message with what it says; `envelope` is None where it cannot be delivered, and `fault` why.

    `labels` are those that its sender had.
    """

    row: Message
    envelope: dict[str, Any] | None
    fault: DeadReason | None = None
    labels: tuple[str, ...] = ()


def waiting(agent: Agent, *, after: int, at: datetime) -> list[Message]:
    """At most PAGE messages past `after` that wait for the agent, in order."""
    rows = Message.objects.filter(
        recipient=agent, state=MessageState.WAITING, number__gt=after, expires_at__gt=at
    )
    return list(rows.select_related("conversation", "sender", "recipient").order_by("number")[:PAGE])


def list_overdue(*, at: datetime, limit: int, agent: Agent | None = None) -> list[int]:
    """Messages that wait and whose time is over, by primary key: of all agents, or of one."""
    rows = Message.objects.filter(state=MessageState.WAITING, expires_at__lte=at)
    if agent is not None:
        rows = rows.filter(recipient=agent)
    return list(rows.order_by("expires_at").values_list("pk", flat=True)[:limit])


def count_waiting(agent: Agent, *, at: datetime) -> int:
    """How many messages wait for the agent."""
    return Message.objects.filter(recipient=agent, state=MessageState.WAITING, expires_at__gt=at).count()


def is_part_of(conversation: Conversation, agent: Agent) -> bool:
    """Whether the agent has sent or was sent anything in the conversation."""
    about = Q(sender=agent) | Q(recipient=agent)
    return Message.objects.filter(about, conversation=conversation).exists()


def open_all(rows: Sequence[Message]) -> list[Opened]:
    """The messages with their envelopes: only what their entries record, and nobody has erased."""
    if not rows:
        return []
    tenant = rows[0].tenant
    bodies = queries.list_bodies(tenant=tenant, commitments={row.commitment for row in rows})
    told = _entries(tenant, rows)
    return [_opened(row, bodies, told.get(row.message_id)) for row in rows]


def announced_ends(conversation: Conversation) -> list[dict[str, str]]:
    """The days after which agents of the conversation no longer speak a version, as they announced them."""
    rows = Message.objects.filter(conversation=conversation, message_type=MessageType.VERSION_NEGOTIATION)
    found = []
    for opened in open_all(list(rows.select_related("sender", "recipient"))):
        dates = {} if opened.envelope is None else opened.envelope["payload"].get("deprecation_dates", {})
        found.append(dict(dates))
    return found


def columns(said: Mapping[str, Any], row: Message) -> list[tuple[str, object, object]]:
    """Each column that the entry of a message records: its name, what is recorded, what is held."""
    return [
        ("conversation", said["conversation_id"], str(row.conversation_id)),
        ("message_id", said["message_id"], row.message_id),
        ("message_type", said["message_type"], row.message_type),
        ("sender", said["from_agent_id"], None if row.sender is None else row.sender.agent_id),
        ("recipient", said["to_agent_id"], None if row.recipient is None else row.recipient.agent_id),
        ("flow", said["dfid"], None if row.flow_id is None else str(row.flow_id)),
        ("correlation_id", said["correlation_id"], row.correlation_id),
        ("number", said["number"], row.number),
        ("commitment", said["message_commitment"], row.commitment),
        ("size_bytes", said["size_bytes"], row.size_bytes),
        ("protocol_version", said["high"], row.protocol_version),
        ("deprecated_on", said["deprecated_on"] or "", row.deprecated_on),
        ("key_id", said["key_id"], row.key_id),
        ("expires_at", said["expires_at"], time_text(row.expires_at)),
    ]


def _entries(tenant: str, rows: Sequence[Message]) -> dict[str, dict[str, Any]]:
    """What the entries of messages say, by the id of the message; one that cannot be read proves nothing."""
    entries = LedgerEntry.objects.filter(
        tenant=tenant,
        stream__in={actors.conversation(row.conversation_id) for row in rows},
        seq__in={row.entry_seq for row in rows},
        kind=Kind.MESSAGE_SENT,
    )
    return {str(said.get("message_id")): said for _, said in queries.readable(entries)}


def _opened(row: Message, bodies: dict[str, bytes | None], said: dict[str, Any] | None) -> Opened:
    body = bodies.get(row.commitment)
    if said is None or body is None or not _is_recorded(said, row):
        return Opened(row=row, envelope=None, fault=DeadReason.TAMPERED)
    if not body:
        return Opened(row=row, envelope=None, fault=DeadReason.ERASED)
    return Opened(row=row, envelope=canonical.decode(body), labels=tuple(said.get("labels", ())))


def _is_recorded(said: dict[str, Any], row: Message) -> bool:
    try:
        return all(recorded == held for _, recorded, held in columns(said, row))
    except KeyError:
        return False
