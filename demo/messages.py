"""The envelopes of messages that demo agents send each other (IAE 3.4.1)."""

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

_BASE_32: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS: Final = 80
_TTL_S: Final = 120


def ulid() -> str:
    """A new id: 26 characters that sort by time."""
    value = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return "".join(_BASE_32[(value >> shift) & 31] for shift in range(125, -1, -5))


def envelope(
    *,
    kind: str,
    sender: str,
    recipient: str | None,
    conversation: str,
    payload: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """A message; ``recipient`` is None for the registry of capabilities."""
    headers = {
        "message_id": ulid(),
        "message_type": kind,
        "conversation_id": conversation,
        "from_agent_id": sender,
        "to_agent_id": recipient,
        "ttl": _TTL_S,
        "protocol_version": {"min_supported": "1.0", "max_supported": "1.0"},
        **more,
    }
    return {"headers": headers, "payload": dict(payload)}


def offer(*, sender: str, capability: str) -> dict[str, Any]:
    """Tell the registry what an agent offers; it costs one unit, and answers within seconds."""
    payload = {
        "capability_name": capability,
        "versions": ["1.0"],
        "SLA": {"p50_ms": 200, "p95_ms": 5_000},
        "cost_model": {"per_call": 1},
        "privacy_level": "internal",
    }
    return envelope(
        kind="CapabilityAdvertise",
        sender=sender,
        recipient=None,
        conversation=f"offers-{sender}",
        payload=payload,
    )


def answer(question: Mapping[str, Any], *, choice: str, confidence: float, reason: str) -> dict[str, Any]:
    """The answer to a ``ConsultationRequest``."""
    asked = question["headers"]
    return envelope(
        kind="ConsultationResponse",
        sender=asked["to_agent_id"],
        recipient=asked["from_agent_id"],
        conversation=asked["conversation_id"],
        payload={"answer": {"choice": choice, "confidence": confidence, "reason": reason}, "cost": 1},
        correlation_id=asked["message_id"],
    )
