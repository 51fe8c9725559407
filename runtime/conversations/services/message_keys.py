"""Signatures of messages: Ed25519 by the key that the sender's manifest names."""

import base64
import binascii
from typing import Any

from audit import canonical, signing


def signed_bytes(message: dict[str, Any]) -> bytes:
    """What is signed: the canonical JSON of the whole message without `headers.signatures`."""
    headers = {name: value for name, value in message["headers"].items() if name != "signatures"}
    return canonical.encode({**message, "headers": headers})


def verified_key(public_key: str, message: dict[str, Any]) -> str | None:
    """The name of the key, where one of the signatures is by it; None where none is.

    `public_key` is raw in base64, `message` the decoded envelope.
    """
    try:
        key = base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError):
        return None
    said = signed_bytes(message)
    for signature in message["headers"].get("signatures", ()):
        try:
            given = base64.b64decode(signature["signature"], validate=True)
        except (binascii.Error, ValueError):
            continue
        if signing.is_signed(said, given, key):
            return signing.key_id_of(key)
    return None
