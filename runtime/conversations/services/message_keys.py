"""Signatures of messages, by the key that the sender's manifest names."""

from typing import Any

from audit import canonical
from runtime.core import agent_signatures


def signed_bytes(message: dict[str, Any]) -> bytes:
    """What is signed: the canonical JSON of the whole message without `headers.signatures`."""
    headers = {name: value for name, value in message["headers"].items() if name != "signatures"}
    return canonical.encode({**message, "headers": headers})


def verified_key(public_key: str, message: dict[str, Any]) -> str | None:
    """The name of the key, where one of the signatures is by it; None where none is.

    `public_key` is raw in base64, `message` the decoded envelope.
    """
    said = signed_bytes(message)
    given = (signature["signature"] for signature in message["headers"].get("signatures", ()))
    names = (agent_signatures.signing_key_of(said, each, public_key=public_key) for each in given)
    return next(filter(None, names), None)
