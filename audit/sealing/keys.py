"""Whose signatures are valid when: each key begins with an entry, which the key before it signs too.

A key signs from its entry on. The one before it stays valid for OVERLAP, in which every process is restarted
with the new one; what it signed before can be verified permanently.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from audit import actors, canonical, ledger, signing
from audit.events import Kind, SigningKeyBegun
from audit.models import LedgerEntry
from audit.sealing.notes import Signed
from audit.signing import Signer

OVERLAP: Final = timedelta(hours=24)
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key that an entry has begun. `until` is None while no other has replaced it.

    `is_vouched_for`: it is the first, or the key before it has signed its beginning.
    """

    key_id: str
    public_key: bytes
    since: datetime
    until: datetime | None = None
    is_vouched_for: bool = True

    def is_valid_at(self, at: datetime) -> bool:
        """Whether a signature of this time counts."""
        return self.since <= at and (self.until is None or at < self.until)


def known(*, tenant: str) -> list[KnownKey]:
    """The keys that have begun, in that order. An entry whose own signature is wrong begins none."""
    rows = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.SIGNING_KEY_BEGUN, stream=actors.SYSTEM)
    found: dict[str, KnownKey] = {}
    for at, body in sorted(rows.order_by().values_list("at", "body"), key=lambda row: row[0]):
        try:
            payload = canonical.decode(bytes(body))["payload"]
        except (canonical.CanonicalError, KeyError, TypeError):
            continue
        key = _read(payload, at, found)
        if key is None or key.key_id in found:
            continue
        before = found.get(payload["previous"])
        if before is not None:
            found[before.key_id] = replace(before, until=at + OVERLAP)
        found[key.key_id] = key
    return list(found.values())


def ensure_begun(*, tenant: str, origin: str, at: datetime) -> KnownKey:
    """The key of this process, begun with an entry where it is new. Inside the caller's transaction."""
    own, keys = signing.signer(), known(tenant=tenant)
    for key in keys:
        if key.key_id == own.key_id:
            return key
    # Nobody rotated to it: the setting was changed by hand, or it is the first.
    previous = keys[-1].key_id if keys else ""
    _begin(own, previous, None, tenant=tenant, origin=origin, actor=actors.SYSTEM, at=at)
    return KnownKey(own.key_id, own.public_key, at, is_vouched_for=not previous)


def rotate_to(new: Signer, *, tenant: str, origin: str, actor: str, at: datetime) -> None:
    """Begin another key, vouched for by the one that signs now. Inside the caller's transaction."""
    own = signing.signer()
    ensure_begun(tenant=tenant, origin=origin, at=at)
    _begin(new, own.key_id, own, tenant=tenant, origin=origin, actor=actor, at=at)


def signer_of(signed: Signed, keys: Sequence[KnownKey]) -> KnownKey | None:
    """The key that signed a checkpoint while it was valid; None where none did."""
    for key in keys:
        signature = signed.signature_by(key.public_key)
        if (
            signature is not None
            and key.is_valid_at(signed.checkpoint.time)
            and signing.is_signed(signed.checkpoint.text().encode(), signature, key.public_key)
        ):
            return key
    return None


def public_keys(*, tenant: str) -> dict[str, str]:
    """Every public key that may have signed something here, by key id: 32 raw bytes as base64."""
    found = {key.key_id: base64.b64encode(key.public_key).decode() for key in known(tenant=tenant)}
    return {**signing.public_keys(), **found}


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of this ledger, for checking several signatures."""

    keys: Mapping[str, KnownKey]

    def verify(self, signed: bytes, signature: bytes, key_id: str, *, at: datetime) -> bool | None:
        """Whether the named key signed it before it ended; None for a key that is not known here."""
        key = self.keys.get(key_id)
        if key is None:
            # A key signs from the start of its server on, which is before its entry is written.
            return signing.verify(signed, signature, key_id)
        has_ended = key.until is not None and at >= key.until
        return not has_ended and signing.is_signed(signed, signature, key.public_key)


def keyring(*, tenant: str) -> Keyring:
    """Read the keys that have begun."""
    return Keyring({key.key_id: key for key in known(tenant=tenant)})


def statement(*, origin: str, key_id: str, public_key: str, previous: str) -> bytes:
    """The bytes that both keys sign; `public_key` in base64, `previous` empty for the first key."""
    return canonical.encode(
        {
            "type": "dir-console/signing-key",
            "origin": origin,
            "key_id": key_id,
            "public_key": public_key,
            "previous": previous,
        }
    )


def _begin(
    new: Signer, previous: str, vouching: Signer | None, *, tenant: str, origin: str, actor: str, at: datetime
) -> None:
    public_key = base64.b64encode(new.public_key).decode()
    signed = statement(origin=origin, key_id=new.key_id, public_key=public_key, previous=previous)
    event = SigningKeyBegun(
        key_id=new.key_id,
        public_key=public_key,
        previous=previous,
        origin=origin,
        signature=new.sign(signed).hex(),
        previous_signature="" if vouching is None else vouching.sign(signed).hex(),
    )
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[event])


def _read(payload: dict[str, Any], at: datetime, earlier: dict[str, KnownKey]) -> KnownKey | None:
    try:
        public_key = base64.b64decode(payload["public_key"], validate=True)
        key_id, previous = str(payload["key_id"]), str(payload["previous"])
        signed = statement(
            origin=payload["origin"], key_id=key_id, public_key=payload["public_key"], previous=previous
        )
        own, before = bytes.fromhex(payload["signature"]), bytes.fromhex(payload["previous_signature"])
    except (binascii.Error, ValueError, KeyError, TypeError, canonical.CanonicalError):
        return None
    is_its_own = len(public_key) == _KEY_BYTES and signing.key_id_of(public_key) == key_id
    if not is_its_own or not signing.is_signed(signed, own, public_key):
        return None
    vouching = earlier.get(previous)
    is_vouched_for = not previous or (
        vouching is not None and signing.is_signed(signed, before, vouching.public_key)
    )
    return KnownKey(key_id, public_key, at, is_vouched_for=is_vouched_for)
