"""The runtime's own signature (Ed25519), behind a protocol: a key service can take its place."""

import base64
import binascii
import hashlib
from functools import cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

SEED_BYTES = 32


def verify(statement: bytes, signature: bytes, key_id: str) -> bool | None:
    """Whether `signature` is that of `statement` by the named key; None for a key that is not held here."""
    own = signer()
    return is_signed(statement, signature, own.public_key) if key_id == own.key_id else None


def is_signed(statement: bytes, signature: bytes, public_key: bytes) -> bool:
    """Whether an Ed25519 signature (64 bytes) of `statement` is by `public_key` (32 raw bytes)."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id_of(public_key: bytes) -> str:
    """The name of a key: the first 16 hex digits of the SHA-256 of its 32 raw bytes."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def public_keys() -> dict[str, str]:
    """The public keys held here, by key id: 32 raw bytes as base64, for whoever checks a signature."""
    own = signer()
    return {own.key_id: base64.b64encode(own.public_key).decode()}


class Signer(Protocol):
    """Signs bytes. `key_id` names the public key: the first 16 hex digits of its SHA-256."""

    @property
    def key_id(self) -> str: ...
    @property
    def public_key(self) -> bytes: ...
    def sign(self, statement: bytes) -> bytes: ...


class LocalSigner:
    """A signer whose seed this process holds."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self._public_key = self._key.public_key().public_bytes(*raw)
        self._key_id = key_id_of(self._public_key)

    @property
    def public_key(self) -> bytes:
        """The raw public key, 32 bytes."""
        return self._public_key

    @property
    def key_id(self) -> str:
        """The name of the key."""
        return self._key_id

    def sign(self, statement: bytes) -> bytes:
        """The signature of `statement`, 64 bytes."""
        return self._key.sign(statement)


@cache
def signer() -> Signer:
    """The signer of this installation, from `settings.DIR_SIGNING_KEY` (base64 of a 32-byte seed).

    Raises ImproperlyConfigured when the key cannot be read; nothing is decided then (fail closed).
    """
    try:
        seed = base64.b64decode(settings.DIR_SIGNING_KEY, validate=True)
    except binascii.Error:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise ImproperlyConfigured(
            "DIR_SIGNING_KEY must be the base64 form of 32 random bytes. Make one with: "
            "python3 -c 'import base64, secrets; print(base64.b64encode(secrets.token_bytes(32)).decode())'"
        )
    return LocalSigner(seed)
