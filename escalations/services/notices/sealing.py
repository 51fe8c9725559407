"""The URL and the signing secret of a route, encrypted with a key that follows from DIR_SECRET_KEY.

Whoever reads the database or a backup of it cannot send in our name, nor read a password out of a URL.
"""

import secrets
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.utils.crypto import salted_hmac

from audit import canonical

_KEY_SALT: Final = "escalations.notices.sealing"
_DIGEST_SALT: Final = "escalations.notices.url"
_NONCE_BYTES: Final = 12


class UnreadableError(Exception):
    """The bytes were sealed with another key, for another route, or were changed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SealedAddress:
    """What is sealed. It has no repr, so that no log or traceback shows it."""

    url: str
    secret: str


def seal(address: SealedAddress, *, route_id: UUID) -> bytes:
    """Encrypt an address for one route."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    plain = canonical.encode({"secret": address.secret, "url": address.url})
    return nonce + AESGCM(_key()).encrypt(nonce, plain, route_id.bytes)


def unseal(stored: bytes, *, route_id: UUID) -> SealedAddress:
    """Decrypt the address of a route. Raises `UnreadableError`."""
    try:
        plain = AESGCM(_key()).decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], route_id.bytes)
    except (InvalidTag, ValueError) as error:
        raise UnreadableError from error
    values = canonical.decode(plain)
    return SealedAddress(url=values["url"], secret=values["secret"])


def digest(url: str) -> str:
    """The digest of a URL for the ledger: keyed, or guessed passwords could be tried against it."""
    return salted_hmac(_DIGEST_SALT, url, algorithm="sha256").hexdigest()


def _key() -> bytes:
    return salted_hmac(_KEY_SALT, "", algorithm="sha256").digest()
