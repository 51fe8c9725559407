"""Tokens (JWT) of issuers that the deployment trusts: whether one is genuine, for us, and of this moment.

What a token says of an agent, a role or a right is not read: it proves an issuer and a subject, and the
binding in the database says which agent that is.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from django.conf import settings

from runtime.contracts.token_issuer import LONGEST_SUBJECT, TrustedIssuer
from runtime.core import clock, ports

# Clocks differ by seconds.
LEEWAY_S: Final = 30
# So long keys are used as they were read, and so long at most if the issuer cannot be asked any more.
FRESH_S: Final = 300.0
USABLE_S: Final = 3_600.0
# Whoever sends invented key ids makes us ask no more often than this.
ASK_AGAIN_S: Final = 30.0
LONGEST: Final = 8_192
MOST_KEYS: Final = 50
_PARTS: Final = 3
_NEEDED: Final = ("iss", "sub", "aud", "exp", "iat")
# By type and curve; the first is meant where the key names none. Nothing symmetric is among them, and a token
# must be signed by the one algorithm of its key.
_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): ("RS256", "PS256"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
}

_log = logging.getLogger(__name__)
_sets: dict[TrustedIssuer, "_KeySet"] = {}


@dataclass(frozen=True, kw_only=True)
class IssuedToken:
    """What a genuine token proves."""

    issuer: str
    subject: str


def verify(text: str) -> IssuedToken | None:
    """What the token proves; None where it proves nothing, whatever is wrong with it. May fetch keys."""
    if len(text) > LONGEST or text.count(".") != _PARTS - 1:
        return None
    try:
        header = jwt.get_unverified_header(text)
        # Only to find out whose keys to verify it with.
        said = jwt.decode(text, options={"verify_signature": False}).get("iss")
        issuer = settings.DIR_TOKEN_ISSUERS.get(said) if isinstance(said, str) else None
        if issuer is None or "crit" in header or not isinstance(header.get("kid"), str):
            return None
        key = _keys_of(issuer).find(header["kid"])
        if key is None:
            return None
        claims = jwt.decode(
            text,
            key,
            algorithms=[key.algorithm_name],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=LEEWAY_S,
            options={"require": list(_NEEDED), "enforce_minimum_key_length": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return None
    subject = claims["sub"]
    if not _is_recent(claims["iat"], issuer) or not 0 < len(subject) <= LONGEST_SUBJECT:
        return None
    return IssuedToken(issuer=issuer.issuer, subject=subject)


def _is_recent(issued_at: Any, issuer: TrustedIssuer) -> bool:
    if isinstance(issued_at, bool) or not isinstance(issued_at, int | float):
        return False
    return clock.now().timestamp() - issued_at <= issuer.max_age_s + LEEWAY_S


def _keys_of(issuer: TrustedIssuer) -> "_KeySet":
    return _sets.setdefault(issuer, _KeySet(issuer))


class _KeySet:
    """The keys of one issuer in this process, by their ids."""

    def __init__(self, issuer: TrustedIssuer) -> None:
        self._issuer = issuer
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_at_s = self._asked_at_s = float("-inf")
        self._lock = threading.Lock()

    def find(self, key_id: str) -> jwt.PyJWK | None:
        """The key of an id. The set is read again when it is old, or does not know the id."""
        is_fresh = time.monotonic() - self._read_at_s < FRESH_S
        if not is_fresh or key_id not in self._keys:
            self._read_again()
        if time.monotonic() - self._read_at_s >= USABLE_S:
            return None
        return self._keys.get(key_id)

    def _read_again(self) -> None:
        # While another thread asks, the keys that are known serve; without any there is nothing to serve.
        if not self._lock.acquire(blocking=not self._keys):
            return
        try:
            if time.monotonic() - self._asked_at_s < ASK_AGAIN_S:
                return
            self._asked_at_s = time.monotonic()
            found = ports.fetch_issuer_keys(place=self._issuer.keys_at)
            keys = _read(found) if isinstance(found, bytes) else found
            if isinstance(keys, str):
                _log.warning("the keys of %s could not be read: %s", self._issuer.issuer, keys)
                return
            self._keys, self._read_at_s = keys, time.monotonic()
        finally:
            self._lock.release()


def _read(body: bytes) -> Mapping[str, jwt.PyJWK] | str:
    """The usable keys of a set; what is wrong with it where it is none."""
    try:
        listed = json.loads(body)["keys"]
        rows = [row for row in listed if isinstance(row, dict)][:MOST_KEYS]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it is no JSON Web Key Set"
    keys = {row.get("kid"): _key(row) for row in rows}
    return {key_id: key for key_id, key in keys.items() if isinstance(key_id, str) and key is not None}


def _key(row: Mapping[str, Any]) -> jwt.PyJWK | None:
    """A public key that verifies signatures, with its one algorithm; None for any other."""
    allowed = _ALGORITHMS.get((str(row.get("kty")), str(row.get("crv", ""))), ())
    algorithm = row.get("alg", next(iter(allowed), None))
    if algorithm not in allowed or row.get("use", "sig") != "sig" or "d" in row:
        return None
    try:
        return jwt.PyJWK(dict(row), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
