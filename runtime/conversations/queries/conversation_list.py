"""Conversations, their messages and dead letters for the pages."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from runtime.contracts.message import MessageState
from runtime.conversations.models import Conversation, Message
from runtime.conversations.queries import mailboxes
from runtime.conversations.queries.mailboxes import Opened
from runtime.core import paging
from runtime.kernel import conversation as rules

PAGE = 50
DEAD_SHOWN = 100
# What a conversation may have between agents, and as much with the registry.
MESSAGES_SHOWN = rules.MOST_MESSAGES * 2


def list_page(
    *, tenant: str, after: UUID | None, text: str, only_stopped: bool, size: int = PAGE
) -> paging.Page[Conversation]:
    """The newest first."""
    rows = Conversation.objects.of(tenant).select_related("opened_by")
    if text:
        rows = rows.filter(name__icontains=text)
    if only_stopped:
        rows = rows.filter(stopped_at__isnull=False)
    if after is not None:
        rows = rows.filter(pk__lt=after)
    return paging.cut(list(rows.order_by("-conversation_id")[: size + 1]), size)


def find(*, tenant: str, conversation_id: UUID) -> Conversation | None:
    """One conversation."""
    return Conversation.objects.of(tenant).select_related("opened_by").filter(pk=conversation_id).first()


def thread(conversation: Conversation) -> list[Opened]:
    """The newest MESSAGES_SHOWN messages, oldest first, each with its envelope where it can be shown."""
    rows = _messages().filter(conversation=conversation).order_by("-pk")[:MESSAGES_SHOWN]
    return mailboxes.open_all(list(rows)[::-1])


def list_dead(*, tenant: str) -> Sequence[Message]:
    """The newest dead letters."""
    rows = _messages().filter(tenant=tenant, state=MessageState.DEAD)
    return list(rows.order_by("-pk")[:DEAD_SHOWN])


def _messages() -> QuerySet[Message]:
    return Message.objects.select_related("conversation", "sender", "recipient")
