"""The one writer of the tree: adds committed entries as leaves, and signs what the tree then is.

One batch is one transaction, which holds the tree's row: where several processes seal, one does and the
others find nothing to do. A checkpoint is signed when nothing waits any more, so it covers all that was
committed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db import connection

from audit import signing
from audit.models import Checkpoint, Leaf, Tile, Tree, UnsealedEntry
from audit.sealing import heads, keys, merkle, notes
from audit.sealing.heads import Ends
from audit.sealing.notes import Resumed, Signed
from audit.sealing.tiles import TileError, Tiles

BATCH: Final = 2000
# An idle ledger is signed so often: who sees no newer checkpoint knows that something is wrong.
HEARTBEAT: Final = timedelta(minutes=1)
# A checkpoint that comes later than this after the one before says why (`notes.Resumed`).
SILENCE: Final = HEARTBEAT + timedelta(minutes=1)
# What the first checkpoint names as the one before it.
NO_CHECKPOINT: Final = bytes(32)
# The databases that this process has signed checkpoints of.
_signed_by: set[str] = set()

# Each entry is looked up by its key. Of a join, PostgreSQL may choose to walk along the whole ledger.
_WAITING = """
SELECT waiting.entry_id,
(SELECT entry.hash FROM audit_ledgerentry entry WHERE entry.id = waiting.entry_id)
FROM audit_unsealedentry waiting ORDER BY waiting.entry_id LIMIT %s
"""
_PAGE: Final = 10_000
_LEAVES = """
SELECT leaf."index", leaf.entry_id,
(SELECT entry.hash FROM audit_ledgerentry entry WHERE entry.id = leaf.entry_id)
FROM audit_leaf leaf WHERE leaf."index" > %s ORDER BY leaf."index" LIMIT %s
"""


class Refusal(StrEnum):
    """Why nothing can be sealed."""

    TREE_DIFFERS = "TREE_DIFFERS"
    KEY_ENDED = "KEY_ENDED"


@dataclass(frozen=True, slots=True)
class Sealed:
    """What one batch did. `is_done`: nothing waits any more, and a checkpoint that was due is signed."""

    leaves: int = 0
    is_done: bool = True
    refusal: Refusal | None = None


def is_due(at: datetime, *, is_signed: bool = True) -> bool:
    """Whether there is something to seal or, where that `is_signed`, to sign. Takes no lock."""
    if UnsealedEntry.objects.exists():
        return True
    last = Checkpoint.objects.order_by("-id").only("at", "size").first()
    if last is None or not is_signed:
        return last is None
    return at - last.at >= HEARTBEAT or Tree.objects.exclude(size=last.size).exists()


def seal(
    *,
    tenant: str,
    now: Callable[[], datetime],
    ends: Ends | None = None,
    is_signed: bool = True,
    on_sealed: Callable[[Sequence[int]], None] = lambda _: None,
) -> Sealed:
    """Seal one batch. Inside the caller's transaction; `now` is read after the lock.

    Unless it `is_signed`, what was added waits for the next call that signs. `on_sealed` is given the ids of
    the entries that got a leaf, in the order of their leaves.

    Signs when the batch was the last one and the tree has grown, or the last checkpoint is a heartbeat old.
    With `ends`, which were gathered before, it signs anyway, and the checkpoint commits to them as well.
    Refuses where the stored tree is not the one that was signed, or the key has been replaced too long ago.
    """
    Tree.objects.get_or_create(only=1)
    tree = Tree.objects.select_for_update(skip_locked=True).first()
    if tree is None or (ends is None and not is_due(now(), is_signed=is_signed)):
        return Sealed()
    at, last = now(), Checkpoint.objects.order_by("-id").first()
    if last is not None:
        at = max(at, last.at)
    own = keys.ensure_begun(tenant=tenant, origin=tree.origin, at=at)
    if not own.is_valid_at(at):
        return Sealed(refusal=Refusal.KEY_ENDED)
    if last is None and tree.size == 0:
        # The empty tree is signed first, so that leaves without any checkpoint are known to be wrong.
        last = _sign(tree, Tiles(), at, last=None)
    tiles = None if last is None else _trusted_tiles(tenant, tree, last)
    if last is None or tiles is None:
        return Sealed(refusal=Refusal.TREE_DIFFERS)
    waiting = _waiting()
    if waiting:
        _add(tree, tiles, waiting)
        on_sealed([pk for pk, _ in waiting])
    is_done = len(waiting) < BATCH
    if is_done and is_signed and (ends is not None or last.size != tree.size or at - last.at >= HEARTBEAT):
        _sign(tree, tiles, at, ends, last=last)
    return Sealed(leaves=len(waiting), is_done=is_done)


def lock_tree() -> Tree:
    """The tree's row, locked until the transaction ends; made where there is none yet."""
    Tree.objects.get_or_create(only=1)
    return Tree.objects.select_for_update().get()


def read(row: Checkpoint) -> Signed | None:
    """The signed note of a stored checkpoint; None where it is not one, or not that of its row."""
    try:
        signed = notes.read(row.note)
    except notes.NoteError:
        return None
    said = signed.checkpoint
    is_same = (said.size, said.root, said.time) == (row.size, bytes(row.root), row.at)
    return signed if is_same else None


def rebuild() -> Tiles:
    """The tiles of all leaves, computed anew from the entries. Raises TileError where one of them is gone."""
    tiles, size = Tiles(), 0
    for index, _, entry_hash in leaves():
        if index != size or entry_hash is None:
            raise TileError(f"leaf {size} or its entry is missing")
        size = tiles.add(size, [merkle.hash_leaf(entry_hash)])
    return tiles


def _waiting() -> list[tuple[int, bytes]]:
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [BATCH])
        found = cursor.fetchall()
    return [(pk, bytes(entry_hash)) for pk, entry_hash in found if entry_hash is not None]


def _trusted_tiles(tenant: str, tree: Tree, last: Checkpoint) -> Tiles | None:
    """Tiles whose root is the one that was signed last; made anew where the stored ones are not."""
    signed = read(last)
    if signed is None or keys.signer_of(signed, keys.known(tenant=tenant)) is None or last.size > tree.size:
        return None
    for load in (Tiles, rebuild):
        try:
            tiles = load()
            if merkle.root(last.size, tiles.read) == signed.checkpoint.root:
                if tiles.changed:
                    Tile.objects.all().delete()
                    tiles.store()
                return tiles
        except TileError:
            continue
    return None


def leaves() -> Iterator[tuple[int, int, bytes | None]]:
    """Every leaf in order: its index, its entry's id and hash; None where there is no such entry."""
    after = -1
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_LEAVES, [after, _PAGE])
            page = cursor.fetchall()
        for index, pk, entry_hash in page:
            yield index, pk, None if entry_hash is None else bytes(entry_hash)
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _add(tree: Tree, tiles: Tiles, waiting: Sequence[tuple[int, bytes]]) -> None:
    ids = [pk for pk, _ in waiting]
    Leaf.objects.bulk_create([Leaf(index=tree.size + offset, entry_id=pk) for offset, pk in enumerate(ids)])
    tree.size = tiles.add(tree.size, [merkle.hash_leaf(entry_hash) for _, entry_hash in waiting])
    tiles.store()
    UnsealedEntry.objects.filter(entry_id__in=ids).delete()
    tree.save(update_fields=["size"])


def _sign(
    tree: Tree, tiles: Tiles, at: datetime, ends: Ends | None = None, *, last: Checkpoint | None
) -> Checkpoint:
    """Sign what the tree is, and which checkpoint came before: so none can be taken out unseen."""
    signer = signing.signer()
    root = merkle.root(tree.size, tiles.read)
    committed = None if ends is None else ends.commitment
    before = None if last is None else read(last)
    checkpoint = notes.Checkpoint(
        tree.origin,
        tree.size,
        root,
        at,
        committed,
        previous=NO_CHECKPOINT if before is None else before.checkpoint.digest(),
        resumed=None if last is None or at - last.at <= SILENCE else _why_silent(),
    )
    note = notes.sign(checkpoint, public_key=signer.public_key, sign=signer.sign)
    row = Checkpoint.objects.create(size=tree.size, root=root, at=at, key_id=signer.key_id, note=note)
    _signed_by.add(str(connection.settings_dict["NAME"]))
    if ends is not None:
        heads.store(ends, row)
    return row


def _why_silent() -> Resumed:
    """What this process knows of a silence: it has just come, or it was there and did not sign."""
    is_new = str(connection.settings_dict["NAME"]) not in _signed_by
    return Resumed.START if is_new else Resumed.STALL
