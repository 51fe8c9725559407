"""Calls about messages between agents: sending, receiving, acknowledging, and who offers what."""

import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from dir_console_client.conversation import TIMEOUT_S, Conversation, Talk
from dir_console_client.models import (
    Consultation,
    Message,
    Provider,
    Sent,
    consultation_of,
    message_of,
    provider_of,
    sent_of,
)

VERSIONS: Final = {"min_supported": "1.0", "max_supported": "1.0"}
_BASE_32: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS: Final = 80


def new_message_id() -> str:
    """A new ULID: 26 characters that sort by time."""
    value = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return "".join(_BASE_32[(value >> shift) & 31] for shift in range(125, -1, -5))


def send_message(
    console: Conversation,
    /,
    message_type: str,
    payload: Mapping[str, Any],
    *,
    to: str | None,
    conversation_id: str | None = None,
    correlation_id: str | None = None,
    dfid: str | None = None,
    ttl_s: int = 600,
    message_id: str | None = None,
    headers: Mapping[str, Any] | None = None,
) -> Talk[Sent]:
    """Send a message; `to` is None for the registry of capabilities.

    Without `conversation_id` a conversation begins. A message that is sent again under the same `message_id`
    is stored once. `headers` are further members of the envelope, such as `budgets` or `signatures`.
    """
    named = {
        "message_id": message_id or new_message_id(),
        "message_type": message_type,
        "conversation_id": conversation_id or str(uuid.uuid4()),
        "correlation_id": correlation_id,
        "from_agent_id": console.agent_id,
        "to_agent_id": to,
        "dfid": dfid,
        "ttl": ttl_s,
        "protocol_version": dict(VERSIONS),
        **(headers or {}),
    }
    body = {"headers": named, "payload": dict(payload)}
    return sent_of((yield from console.call("POST", "/messages", body)))


def reply(
    console: Conversation,
    /,
    message: Message,
    payload: Mapping[str, Any],
    *,
    message_type: str = "ConsultationResponse",
    message_id: str | None = None,
) -> Talk[Sent]:
    """Answer a message, in its conversation: with an answer, or with an `Error`."""
    return (
        yield from send_message(
            console,
            message_type,
            payload,
            to=message.sender,
            conversation_id=message.conversation_id,
            correlation_id=message.message_id,
            message_id=message_id,
        )
    )


def messages(console: Conversation, /, *, after: int = 0, wait_s: int = 0) -> Talk[tuple[list[Message], int]]:
    """What nobody has acknowledged past `after`, and where to go on from; waits up to `wait_s` (30 at most).

    A message comes again until it is acknowledged: a receiver must bear seeing it twice.
    """
    asked = urlencode({"after": after, "wait_s": wait_s})
    body = yield from console.call("GET", f"/messages?{asked}", timeout_s=wait_s + TIMEOUT_S)
    return [message_of(row) for row in body["messages"]], int(body["next"])


def acknowledge(console: Conversation, /, message_id: str) -> Talk[bool]:
    """Take a message, so that it does not come again; False where another instance has taken it."""
    body = yield from console.call("POST", f"/messages/{quote(message_id, safe='')}/ack", {})
    return bool(body["taken_here"])


def capabilities(console: Conversation, /, name: str | None = None, **wanted: Any) -> Talk[list[Provider]]:
    """Who offers a capability, the cheapest first. What providers state is a claim.

    `wanted` may name `latency_ms`, `cost_ceiling`, `jurisdiction`, `required_schema`, `tag` and `version`.
    """
    asked = {"capability_name": name, **wanted}
    named = urlencode({key: value for key, value in asked.items() if value is not None})
    body = yield from console.call("GET", f"/capabilities{'?' if named else ''}{named}")
    return [provider_of(row) for row in body["capabilities"]]


def advertise(
    console: Conversation, /, name: str, *, versions: Sequence[str] = ("1.0",), **claims: Any
) -> Talk[Sent]:
    """Offer a capability. `claims` are further members: `SLA`, `cost_model`, `tags`, `jurisdiction` ..."""
    payload = {"capability_name": name, "versions": list(versions), **claims}
    return (yield from send_message(console, "CapabilityAdvertise", payload, to=None))


def consult(
    console: Conversation,
    /,
    dfid: str,
    capability: str,
    question: str,
    options: Sequence[Mapping[str, Any]],
    **bounds: Any,
) -> Talk[list[Consultation]]:
    """Ask providers which of the options, `{id, action}`, they would choose: who was asked.

    `bounds` may name `providers`, `time_s` and `cost_units`.
    """
    asked = [{"id": each["id"], "action": each["action"]} for each in options]
    body = {"capability_name": capability, "question": question, "options": asked, **bounds}
    answer = yield from console.call("POST", f"/flows/{dfid}/consultations", body, key=str(uuid.uuid4()))
    return [consultation_of(row) for row in answer["consultations"]]


def consultations(console: Conversation, /, dfid: str) -> Talk[list[Consultation]]:
    """Who was consulted in a flow, and what they answered: claims of theirs."""
    body = yield from console.call("GET", f"/flows/{dfid}/consultations")
    return [consultation_of(row) for row in body["consultations"]]
