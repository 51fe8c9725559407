"""Where the entry of a message is in the ledger, for who reads the ledger alone."""

from uuid import UUID

from audit import actors
from runtime.conversations.models import Message


def find(*, tenant: str, message_id: str) -> tuple[str, int] | None:
    """Stream and number of the entry of a message; None for no such message."""
    return _place(Message.objects.of(tenant).filter(message_id=message_id).first())


def find_of_flow(*, tenant: str, dfid: UUID) -> tuple[str, int] | None:
    """The same of the newest message about a flow."""
    return _place(Message.objects.of(tenant).filter(flow=dfid).order_by("-pk").first())


def _place(row: Message | None) -> tuple[str, int] | None:
    return None if row is None else (actors.conversation(row.conversation_id), row.entry_seq)
