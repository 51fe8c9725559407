"""Signatures by agents: Ed25519, by a key that the agent's manifest names."""

import base64
import binascii

from audit import signing


def signing_key_of(said: bytes, signature: str, *, public_key: str) -> str | None:
    """The name of the key that `signature` of these bytes is by; None where it is not by `public_key`.

    Both are raw bytes in base64.
    """
    try:
        key = base64.b64decode(public_key, validate=True)
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return None
    return signing.key_id_of(key) if signing.is_signed(said, given, key) else None


def key_id_of(public_key: str) -> str:
    """The name of a public key, as entries have it."""
    return signing.key_id_of(base64.b64decode(public_key))
