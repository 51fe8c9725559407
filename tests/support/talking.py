"""Messages as agents send them, for tests."""

import base64
import itertools
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit import canonical
from runtime.contracts.message import Envelope
from runtime.contracts.message_answers import MessageAnswer
from runtime.contracts.message_payloads import PAYLOADS
from runtime.contracts.problem import Problem
from runtime.conversations.models import Capability
from runtime.conversations.services import capabilities, delivering, posting, sending
from runtime.kernel import conversation as rules
from runtime.kernel.capability_health import ListingState
from runtime.registry.models import Session
from tests.support import api_client, factories

_ids = itertools.count(1)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
QUESTION = {"question": "Should we buy?"}


def ulid() -> str:
    """An id that no other message of this process has."""
    number, text = next(_ids), ""
    for _ in range(10):
        number, digit = divmod(number, 32)
        text = _ALPHABET[digit] + text
    return "01JDK0000000000Z"[:16] + text


def message(payload: dict[str, Any] | None = None, **headers: Any) -> dict[str, Any]:
    """A ConsultationRequest from `trader` to `other-trader`, but for what is given."""
    return {
        "headers": {
            "message_id": ulid(),
            "message_type": "ConsultationRequest",
            "conversation_id": "talk-1",
            "from_agent_id": api_client.TRADER,
            "to_agent_id": api_client.OTHER,
            "sent_at": "2026-11-27T08:00:00Z",
            "ttl": 600,
            "protocol_version": {"min_supported": "1.0", "max_supported": "1.2"},
            **headers,
        },
        "payload": QUESTION if payload is None else payload,
    }


def answer_to(asked: dict[str, Any], **headers: Any) -> dict[str, Any]:
    """The ConsultationResponse to a message."""
    there = asked["headers"]
    return message(
        {"answer": "No.", "consensus_metrics": {"agreement": 0.6}},
        **{
            "message_type": "ConsultationResponse",
            "correlation_id": there["message_id"],
            "conversation_id": there["conversation_id"],
            "from_agent_id": there["to_agent_id"],
            "to_agent_id": there["from_agent_id"],
            **headers,
        },
    )


class Key:
    """An Ed25519 key of an agent."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()

    @property
    def public(self) -> str:
        """As a manifest names it."""
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        return base64.b64encode(self._key.public_key().public_bytes(*raw)).decode()

    def sign(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The message with its signature."""
        signature = base64.b64encode(self._key.sign(canonical.encode(sent))).decode()
        return {**sent, "headers": {**sent["headers"], "signatures": [{"signature": signature}]}}


def allow(agent_id: str = api_client.TRADER, **changes: Any) -> None:
    """Put another manifest of the agent in force."""
    factories.change_manifest(agent_id, **changes)


def tell() -> None:
    """A conversation that was slowed and stopped, one that goes on, and a capability with its troubles."""
    agents = {name: factories.desk(agent_id=name).session for name in ("asker", "adviser")}
    asked = [_between("asker", "adviser", "story") for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "MOST_AT_ONCE", 2)
        _send(agents["asker"], asked[0])
        _send(agents["asker"], asked[1])
        assert isinstance(_send(agents["asker"], asked[2]), Problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "MOST_MESSAGES", 2)
        assert isinstance(_send(agents["asker"], asked[2]), Problem)
    again = _between("asker", "adviser", "story-on")
    _send(agents["asker"], again)
    delivering.acknowledge(session=agents["adviser"], message_id=again["headers"]["message_id"])
    offer = {"capability_name": "advice", "versions": ["1.0"]}
    _send(agents["adviser"], _to_registry("adviser", "CapabilityAdvertise", offer))
    for _ in range(3):
        _send(agents["adviser"], _to_registry("adviser", "Heartbeat", {"status": "unavailable"}))
    row = Capability.objects.get()
    capabilities.override(
        tenant=row.tenant,
        pk=row.pk,
        state=ListingState.DELISTED,
        seen="",
        reason="It does not answer.",
        actor="user:1",
    )


def received(sent: dict[str, Any]) -> posting.Received:
    """A message as the API hands it to the services."""
    body = canonical.encode(sent)
    envelope = Envelope.model_validate_json(body)
    payload = PAYLOADS[envelope.headers.message_type].model_validate_json(canonical.encode(envelope.payload))
    return posting.Received(body=body, envelope=envelope, payload=payload)


def _send(session: Session, sent: dict[str, Any]) -> MessageAnswer | Problem:
    return sending.send(session=session, received=received(sent))


def _between(sender: str, recipient: str, name: str) -> dict[str, Any]:
    return message(conversation_id=name, from_agent_id=sender, to_agent_id=recipient)


def _to_registry(sender: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return message(
        payload, message_type=kind, conversation_id="story-registry", from_agent_id=sender, to_agent_id=None
    )
