"""How payloads are encrypted: AES-256-GCM under the key of a class, which the installation's key wraps.

The additional data of a payload is its commitment and that of a wrapped key its name, so neither can be put
in another's place. No database here: `payload_keys` finds and makes the keys.
"""

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
WRAPPED_BYTES: Final = NONCE_BYTES + KEY_BYTES + 16
# In place of a key: this process opens nothing and writes no payload. For a check on another machine.
NO_KEY: Final = "none"
_INFO: Final = b"dir-console/payload-keys/1"


class PayloadKeyError(RuntimeError):
    """Payloads cannot be written, since the key of this installation is missing or is another one."""


class State(StrEnum):
    """What became of opening a payload: SEALED without the key for it, BROKEN where the key does not fit."""

    HELD = "HELD"
    ERASED = "ERASED"
    SEALED = "SEALED"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class Opened:
    """A payload after opening; the body only where it is HELD."""

    state: State
    body: bytes | None = None


class Wrapped(Protocol):
    """The stored form of a key."""

    key_id: UUID
    tenant: str
    data_class: str
    master_id: str
    wrapped: "bytes | memoryview[int] | None"


@dataclass(frozen=True, slots=True)
class Master:
    """The key that wraps the others, and its name."""

    master_id: str
    cipher: AESGCM


def read_secret(text: str) -> bytes | None:
    """The 32 bytes of DIR_PAYLOAD_KEY; None where it is not the base64 form of so many."""
    try:
        secret = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return secret if len(secret) == KEY_BYTES else None


def master() -> Master | None:
    """The key of this installation; None where the process has none."""
    return _master(settings.DIR_PAYLOAD_KEY)


@lru_cache(maxsize=4)
def _master(text: str) -> Master | None:
    secret = read_secret(text)
    if secret is None:
        return None
    derived = HKDF(algorithm=SHA256(), length=2 * KEY_BYTES, salt=None, info=_INFO).derive(secret)
    # The name follows from other bytes than the key, so it says nothing of it.
    return Master(hashlib.sha256(derived[KEY_BYTES:]).hexdigest()[:16], AESGCM(derived[:KEY_BYTES]))


def wrap(held: Master, secret: bytes, *, tenant: str, data_class: str, key_id: UUID) -> bytes:
    """A key of a class in the form in which it is stored: nonce, then the encrypted key."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + held.cipher.encrypt(nonce, secret, _name(tenant, data_class, key_id))


def unwrap(key: Wrapped) -> AESGCM | None:
    """The cipher of a stored key; None where another key of an installation wraps it, or none is here.

    Raises InvalidTag for one that was changed.
    """
    held = master()
    if held is None or key.wrapped is None or held.master_id != key.master_id:
        return None
    name = _name(key.tenant, key.data_class, key.key_id)
    return _unwrap(settings.DIR_PAYLOAD_KEY, bytes(key.wrapped), name)


@lru_cache(maxsize=256)
def _unwrap(text: str, wrapped: bytes, name: bytes) -> AESGCM:
    held = _master(text)
    if held is None:
        raise PayloadKeyError("there is no key to unwrap with")
    return AESGCM(held.cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], name))


def rewrap(key: Wrapped, *, old: str) -> bytes:
    """The stored form of a key, wrapped by the key of this installation instead of by `old`.

    Raises PayloadKeyError where either key is missing or `old` is not what wraps it.
    """
    now, before = master(), _master(old)
    if now is None:
        raise PayloadKeyError("DIR_PAYLOAD_KEY holds no key, so nothing can be wrapped with it")
    if before is None:
        raise PayloadKeyError("the old key must be the base64 form of 32 bytes")
    if key.wrapped is None or before.master_id != key.master_id:
        raise PayloadKeyError(f"the old key is not the one that wraps the key {key.key_id}")
    wrapped, name = bytes(key.wrapped), _name(key.tenant, key.data_class, key.key_id)
    try:
        secret = before.cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], name)
    except InvalidTag:
        raise PayloadKeyError(f"the key {key.key_id} of the class {key.data_class} was changed") from None
    return wrap(now, secret, tenant=key.tenant, data_class=key.data_class, key_id=key.key_id)


def seal_with(cipher: AESGCM, *, commitment: str, body: bytes) -> tuple[bytes, bytes]:
    """A fresh nonce, and the body encrypted under it."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce, cipher.encrypt(nonce, body, commitment.encode())


def open_with(key: Wrapped, *, commitment: str, nonce: bytes, content: bytes) -> Opened:
    """What `seal_with` has encrypted under this stored key."""
    if key.wrapped is None:
        return Opened(State.ERASED)
    try:
        cipher = unwrap(key)
        if cipher is None:
            return Opened(State.SEALED)
        return Opened(State.HELD, cipher.decrypt(nonce, content, commitment.encode()))
    except (InvalidTag, ValueError, TypeError):
        return Opened(State.BROKEN)


def _name(tenant: str, data_class: str, key_id: UUID) -> bytes:
    return f"{tenant}\n{data_class}\n{key_id}".encode()
