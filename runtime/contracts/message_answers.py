"""What the API answers about messages between agents."""

from typing import Any

from runtime.contracts.api_schemas import At, Body
from runtime.contracts.message import MessageState


class MessageAnswer(Body):
    """A message as it was taken. `protocol_version` is the highest that its conversation has in common.

    `deprecated_on` is the day from which an agent of the conversation no longer speaks that version.
    """

    message_id: str
    conversation_id: str
    sent_at: At
    expires_at: At
    protocol_version: str
    deprecated_on: str | None = None


class Delivered(Body):
    """A message as its sender sent it, its place in the mailbox, and who vouches for it.

    `verified_key_id` names the key of the sender's manifest that signed it; null where none has to.
    """

    number: int
    sent_at: At
    expires_at: At
    protocol_version: str
    verified_key_id: str | None
    headers: dict[str, Any]
    payload: dict[str, Any]


class MessagesAnswer(Body):
    """Messages that nobody has acknowledged, in order; `next` is the cursor after them."""

    messages: tuple[Delivered, ...]
    next: int


class AcknowledgeAnswer(Body):
    """What became of a message. `taken_here`: by this session, so that nobody else works on it."""

    message_id: str
    state: MessageState
    ended_at: At
    taken_here: bool


class CapabilitiesAnswer(Body):
    """Capability records with the fields of IAE 3.4.3."""

    capabilities: tuple[dict[str, Any], ...]
