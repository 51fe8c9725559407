"""What the tree proves: that an entry is in it, and that a later tree begins with an earlier one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from audit.models import Checkpoint, Leaf, LedgerEntry, Tree, UnsealedEntry
from audit.sealing import heads, merkle, notes, sealer
from audit.sealing.notes import Signed
from audit.sealing.tiles import TileError, Tiles


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where an entry is in the tree of `size`, and the hashes (32 bytes each) that lead to its root."""

    index: int
    size: int
    entry_hash: bytes
    hashes: list[bytes]


def latest() -> Signed | None:
    """The newest checkpoint; None before the first one."""
    row = Checkpoint.objects.order_by("-id").first()
    return None if row is None else sealer.read(row)


@dataclass(frozen=True, slots=True)
class Page:
    """Checkpoints as they were signed, oldest first; `next` is `after` of the next page, None on the last."""

    notes: tuple[str, ...]
    next: int | None


def list_signed(*, from_size: int, to_size: int, after: int, limit: int) -> Page:
    """The checkpoints over so many entries that were signed after the one with this number, or 0."""
    rows = Checkpoint.objects.filter(size__gte=from_size, size__lte=to_size, id__gt=after)
    # Sizes never fall, so both orders are the same; each page is found by the index that leads to its first.
    order = ("id",) if after else ("size", "id")
    found = list(rows.order_by(*order).values_list("id", "note")[: limit + 1])
    shown = found[:limit]
    return Page(tuple(note for _, note in shown), shown[-1][0] if len(found) > limit else None)


def sealed_at() -> datetime | None:
    """When the newest checkpoint was signed; None before the first one."""
    return Checkpoint.objects.order_by("-id").values_list("at", flat=True).first()


def count_unsealed() -> int:
    """How many entries wait for the tree."""
    return UnsealedEntry.objects.count()


def root_at(size: int) -> bytes | None:
    """The root over the first `size` leaves; None where the tree has not as many."""
    try:
        return merkle.root(size, Tiles().read) if size >= 0 else None
    except TileError:
        return None


def begins_with(checkpoint: notes.Checkpoint) -> bool:
    """Whether this tree begins with the one that a checkpoint is about.

    Where the stored hashes say no, they are computed anew from the entries, which takes a while: they may be
    damaged. Nothing is written.
    """
    size = Tree.objects.values_list("size", flat=True).first()
    if size is None or checkpoint.size > size:
        return False
    for load in (Tiles, sealer.rebuild):
        try:
            if merkle.root(checkpoint.size, load().read) == checkpoint.root:
                return True
        except TileError:
            continue
    return False


def inclusion(*, tenant: str, stream: str, seq: int, size: int | None = None) -> Inclusion | None:
    """The proof of one entry under a tree of `size`, that of the newest checkpoint unless given.

    None where the entry is not in that tree.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq).values_list("id", "hash")
    row = rows.first()
    if row is None:
        return None
    if size is None:
        newest = latest()
        if newest is None:
            return None
        size = newest.checkpoint.size
    return inclusions(entries=[(row[0], bytes(row[1]))], size=size).get(row[0])


def inclusions(*, entries: Sequence[tuple[int, bytes]], size: int) -> dict[int, Inclusion]:
    """The proofs of several entries, given as (id, hash), by id; one that is not in that tree is left out."""
    hashes = dict(entries)
    leaves = Leaf.objects.filter(entry_id__in=list(hashes), index__lt=size)
    tiles, found = Tiles(), {}
    for index, pk in leaves.order_by("index").values_list("index", "entry_id"):
        try:
            path = merkle.inclusion_proof(index, size, tiles.read)
        except TileError:
            continue
        found[pk] = Inclusion(index=index, size=size, entry_hash=hashes[pk], hashes=path)
    return found


def head(*, tenant: str, stream: str) -> dict[str, Any] | None:
    """The committed end of a stream with its proof, as evidence packs hold it; None where there is none."""
    found = heads.find(tenant=tenant, stream=stream)
    row = heads.committing()
    signed = None if row is None else sealer.read(row)
    if found is None or signed is None or signed.checkpoint.heads is None:
        return None
    index, committed = found
    count = signed.checkpoint.heads.count
    try:
        path = merkle.inclusion_proof(index, count, heads.Reader())
    except (LookupError, ValueError):
        return None
    return {
        "checkpoint": signed.text,
        "index": index,
        "count": count,
        "head": committed,
        "proof": [each.hex() for each in path],
    }


def consistency(*, from_size: int, to_size: int) -> list[bytes] | None:
    """The proof that the tree of `to_size` begins with that of `from_size`; None for sizes not reached."""
    if not 0 <= from_size <= to_size:
        return None
    try:
        return merkle.consistency_proof(from_size, to_size, Tiles().read)
    except TileError:
        return None
