"""One entry, checked now: its hash, the entry before it, its columns, its place in the tree, the signature.

`verify_ledger` checks all of them; this answers for one, in a few queries, whoever opens its page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from audit import canonical, cells, chain
from audit.chain import BreakKind, ChainVerifier, LedgerRow
from audit.models import Checkpoint, Leaf, LedgerEntry, UnsealedEntry
from audit.sealing import keys, merkle, proofs, sealer
from audit.sealing.keys import KnownKey
from audit.sealing.notes import Signed
from audit.sealing.proofs import Inclusion

_HASH_BYTES: Final = 32


class Part(StrEnum):
    """What is checked, in this order."""

    HASH = "HASH"
    PREVIOUS = "PREVIOUS"
    COLUMNS = "COLUMNS"
    TREE = "TREE"
    CHECKPOINT = "CHECKPOINT"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What came out: True, False, or None where nobody can say yet; `recorded` is compared with `found`."""

    part: Part
    is_right: bool | None
    detail: str
    recorded: str = ""
    found: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sealed:
    """The leaf of an entry, the newest checkpoint with the proof under it, and the first one that had it."""

    index: int
    newest: Signed
    signer: KnownKey | None
    proof: Inclusion
    first: Signed | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedEntry:
    """An entry with what was checked of it. `said` is its body, decoded; None where a check is wrong."""

    id: int
    stream: str
    seq: int
    hash: str
    prev_hash: str
    body: bytes
    said: dict[str, Any] | None
    checks: Sequence[Check]
    sealed: Sealed | None
    has_next: bool

    @property
    def is_whole(self) -> bool:
        """Whether nothing that was checked is wrong."""
        return self.said is not None

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of a whole entry."""
        payload: dict[str, Any] = (self.said or {}).get("payload", {})
        return payload


def read(*, tenant: str, stream: str, seq: int) -> CheckedEntry | None:
    """The entry with what was checked of it, in the caller's snapshot; None where there is none.

    The cells are read as they are: whoever changes a database may put anything into them.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream)
    columns = ("id", "seq", "kind", "at", "actor", "body", "prev_hash", "hash")
    row = rows.filter(seq=seq).values(*columns).first()
    if row is None:
        return None
    body, prev_hash, stored = (cells.bytes_of(row[name]) or b"" for name in ("body", "prev_hash", "hash"))
    before = rows.filter(seq=seq - 1).values_list("hash", flat=True).first() if seq > 1 else None
    checks = [
        _hash(prev_hash, body, stored),
        _previous(seq, prev_hash, None if before is None else cells.bytes_of(before)),
        _columns(row, tenant=tenant, stream=stream, body=body, prev_hash=prev_hash, stored=stored),
    ]
    sealed, placed = _sealed(row["id"], stored, keys.known(tenant=tenant))
    checks += placed
    is_whole = all(check.is_right is not False for check in checks)
    return CheckedEntry(
        id=row["id"],
        stream=stream,
        seq=seq,
        hash=stored.hex(),
        prev_hash=prev_hash.hex(),
        body=body,
        said=canonical.decode(body) if is_whole else None,
        checks=checks,
        sealed=sealed,
        has_next=rows.filter(seq=seq + 1).exists(),
    )


def _hash(prev_hash: bytes, body: bytes, stored: bytes) -> Check:
    found = chain.entry_hash(prev_hash, body)
    return Check(
        part=Part.HASH,
        is_right=found == stored,
        detail="SHA-256 over the previous hash and the stored bytes.",
        recorded=stored.hex(),
        found=found.hex(),
    )


def _previous(seq: int, prev_hash: bytes, before: bytes | None) -> Check:
    if seq == 1:
        detail, expected = "The first entry of a stream names 32 zero bytes.", chain.GENESIS_HASH
    elif before is None:
        return Check(
            part=Part.PREVIOUS,
            is_right=False,
            detail=f"Entry {seq - 1}, which it follows, is missing.",
            recorded=prev_hash.hex(),
        )
    else:
        detail, expected = f"The stored hash of entry {seq - 1}.", before
    return Check(
        part=Part.PREVIOUS,
        is_right=prev_hash == expected,
        detail=detail,
        recorded=prev_hash.hex(),
        found=expected.hex(),
    )


def _columns(
    row: dict[str, Any], *, tenant: str, stream: str, body: bytes, prev_hash: bytes, stored: bytes
) -> Check:
    """Whether the bytes are canonical and say what the columns beside them say."""
    try:
        walk = ChainVerifier(heads={(tenant, stream): (row["seq"] - 1, prev_hash)})
        held = {**row, "tenant": tenant, "stream": stream, "body": body, "prev_hash": prev_hash}
        held["hash"] = stored
        del held["id"]
        found = walk.step(LedgerRow(**held))
    except (AttributeError, TypeError, ValueError):
        return Check(part=Part.COLUMNS, is_right=False, detail="A column cannot be read.")
    if found is None:
        # The payload itself is read by its kind: a page shows sentences of it.
        is_object = walk.body is not None and isinstance(walk.body["payload"], dict)
        detail = "The bytes are canonical JSON, and the columns beside them say the same."
        return Check(
            part=Part.COLUMNS, is_right=is_object, detail=detail if is_object else "It has no payload."
        )
    if found.fault is BreakKind.HASH_MISMATCH:
        # Said by the first check already; what other bytes say is nothing.
        return Check(part=Part.COLUMNS, is_right=None, detail="Not compared, since the hash does not match.")
    return Check(part=Part.COLUMNS, is_right=False, detail=f"{found.detail[:1].upper()}{found.detail[1:]}.")


def _sealed(
    pk: int, stored: bytes, known: Sequence[KnownKey]
) -> tuple[Sealed | None, tuple[Check] | tuple[Check, Check]]:
    index = Leaf.objects.filter(entry_id=pk).values_list("index", flat=True).first()
    newest = proofs.latest()
    if newest is None and Checkpoint.objects.exists():
        detail = "The newest checkpoint was changed in the database, so it proves nothing."
        return None, (Check(part=Part.CHECKPOINT, is_right=False, detail=detail),)
    if index is None or newest is None or index >= newest.checkpoint.size:
        is_waiting = index is not None or UnsealedEntry.objects.filter(entry_id=pk).exists()
        detail = (
            "It waits for the tree: it is sealed within seconds of its commit."
            if is_waiting
            else "It is neither in the tree nor waiting for it."
        )
        return None, (Check(part=Part.TREE, is_right=None if is_waiting else False, detail=detail),)
    size, root = newest.checkpoint.size, newest.checkpoint.root
    proof = proofs.inclusions(entries=[(pk, stored)], size=size).get(pk)
    if proof is None:
        detail = "Hashes of the tree are missing. The sealer makes them anew from the entries."
        return None, (Check(part=Part.TREE, is_right=None, detail=detail),)
    is_in = len(stored) == _HASH_BYTES and merkle.verify_inclusion(
        leaf_hash=merkle.hash_leaf(stored), index=index, size=size, proof=proof.hashes, root=root
    )
    signer = keys.signer_of(newest, known)
    row = Checkpoint.objects.filter(size__gt=index).order_by("size", "id").first()
    return Sealed(
        index=index,
        newest=newest,
        signer=signer,
        proof=proof,
        first=None if row is None else sealer.read(row),
    ), (
        Check(
            part=Part.TREE,
            is_right=is_in,
            detail=f"Leaf {index} of {size}, by {len(proof.hashes)} hashes up to the root of the checkpoint.",
        ),
        Check(
            part=Part.CHECKPOINT,
            is_right=signer is not None,
            detail="The newest checkpoint is signed by a key that was valid then."
            if signer
            else "No key of this ledger signed the newest checkpoint while it was valid.",
        ),
    )
