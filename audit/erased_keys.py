"""Payloads that were erased with their whole key: what the entry `payload_key:destroyed` says of them."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from uuid import UUID

from audit import queries
from audit.events import Kind
from audit.models import Payload


def digest_of(commitments: Iterable[str]) -> str:
    """The hexadecimal SHA-256 over the sorted commitments, each with a line feed."""
    told = hashlib.sha256()
    for commitment in sorted(commitments):
        told.update(commitment.encode() + b"\n")
    return told.hexdigest()


def find_covered(*, tenant: str, commitments: Collection[str], is_compared: bool) -> set[str]:
    """Those of the commitments whose payload was erased with a key, as an entry says.

    `is_compared`: only where all that is erased under the key is what the entry covers, which reads every
    commitment of the key. `verify_ledger` always compares.
    """
    rows = Payload.objects.filter(
        tenant=tenant, commitment__in=list(commitments), content=None, key__isnull=False
    )
    by_key = defaultdict[str, set[str]](set)
    for commitment, under in rows.values_list("commitment", "key_id"):
        by_key[str(under)].add(commitment)
    if not by_key:
        return set()
    told = queries.list_payloads_of_kind(tenant=tenant, kind=Kind.PAYLOAD_KEY_DESTROYED)
    found = set[str]()
    for _, said in told:
        key_id = str(said.get("key_id"))
        if key_id not in by_key:
            continue
        if not is_compared or said.get("commitments_digest") == _digest(tenant, key_id):
            found |= by_key[key_id]
    return found


def _digest(tenant: str, key_id: str) -> str:
    rows = Payload.objects.filter(tenant=tenant, key=UUID(key_id), content=None)
    return digest_of(rows.values_list("commitment", flat=True))
