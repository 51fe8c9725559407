"""The tree and its checkpoints against the entries, and against a checkpoint that somebody kept elsewhere.

Whoever rewrites entries, chains and heads alike must also rewrite the tree, which only the signing key can
sign; and whoever has the key still cannot change what a checkpoint in other hands says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, OuterRef, QuerySet

from audit import actors, cells, chain
from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.models import Checkpoint, HeadPage, Leaf, LedgerEntry, Tile, Tree, UnsealedEntry
from audit.sealing import heads, keys, merkle, notes, sealer
from audit.sealing.keys import KnownKey
from audit.sealing.merkle import Frontier
from audit.sealing.notes import Signed
from audit.sealing.tiles import HASH_BYTES, WIDTH

# A transaction writes its entries some time before it commits, and the sealer comes after that.
SLACK: Final = timedelta(minutes=1)
_PAGE: Final = 2000


@dataclass(slots=True)
class TreeCheck:
    """What was found of the tree: how much was checked, and what could not be verified."""

    tenant: str
    given: Signed | None = None
    leaves: int = 0
    checkpoints: int = 0
    not_verified: list[str] = field(default_factory=list)
    # The newest checkpoint that commits to the ends of streams.
    _with_heads: int | None = None
    _keys: list[KnownKey] = field(default_factory=list)

    def run(self) -> Iterator[ChainBreak]:
        """Check everything, leaf by leaf."""
        self._keys = keys.known(tenant=self.tenant)
        yield from self._check_keys()
        tree = Tree.objects.first()
        roots: dict[int, bytes] = {}
        yield from self._check_leaves(roots)
        yield from self._check_tiles()
        if tree is not None and tree.size != self.leaves:
            detail = f"the tree says {tree.size} leaves, but {self.leaves} are stored"
            yield _of_tree(BreakKind.LEAF_MISMATCH, detail)
        yield from self._check_checkpoints("" if tree is None else tree.origin, roots)
        yield from self._check_heads()
        yield from self._check_unsealed()
        if self.given is not None:
            yield from self._check_given(self.given, "" if tree is None else tree.origin, roots)

    def _check_keys(self) -> Iterator[ChainBreak]:
        begun = {key.key_id for key in self._keys}
        rows = LedgerEntry.objects.filter(tenant=self.tenant, kind=Kind.SIGNING_KEY_BEGUN).order_by("id")
        for entry in rows:
            key_id = entry.payload.get("key_id")
            if key_id not in begun:
                detail = f"the entry that begins the key {key_id} is not signed by it"
                yield ChainBreak(self.tenant, entry.stream, entry.seq, BreakKind.SIGNATURE_WRONG, detail)
        self.not_verified += [
            f"the key {key.key_id}: the key before it has not signed that it begins"
            for key in self._keys
            if not key.is_vouched_for
        ]

    def _check_leaves(self, roots: dict[int, bytes]) -> Iterator[ChainBreak]:
        """Each leaf has its entry, with the hash that was sealed; takes down the roots of signed sizes."""
        wanted = set(Checkpoint.objects.values_list("size", flat=True))
        if self.given is not None:
            wanted.add(self.given.checkpoint.size)
        frontier, tile = Frontier(), b""
        for index, pk, entry_hash in sealer.leaves():
            if frontier.size in wanted:
                roots[frontier.size] = frontier.root()
            if index != frontier.size:
                yield _of_tree(BreakKind.LEAF_MISMATCH, f"leaf {frontier.size} is missing")
                self.leaves = frontier.size
                return
            at = index % WIDTH
            if at == 0:
                tile = _stored_tile(index // WIDTH)
            sealed = tile[at * HASH_BYTES : (at + 1) * HASH_BYTES]
            if entry_hash is None:
                yield _of_tree(BreakKind.LEAF_MISMATCH, f"the entry of leaf {index} is missing")
            elif merkle.hash_leaf(entry_hash) != sealed:
                yield _of_entry(
                    pk, BreakKind.LEAF_MISMATCH, f"it is not the entry that was sealed as leaf {index}"
                )
            frontier.push(merkle.hash_leaf(entry_hash or b""))
        self.leaves = frontier.size
        roots[frontier.size] = frontier.root()

    def _check_tiles(self) -> Iterator[ChainBreak]:
        """Each tile above the leaves follows from those below; there is none too many."""
        below, level = -(-self.leaves // WIDTH), 0
        sizes = {0: self.leaves}
        while sizes[level]:
            level += 1
            sizes[level] = sizes[level - 1] // WIDTH
        count = 0
        for tile_level, number, hashes in _tiles():
            held = cells.bytes_of(hashes)
            size = sizes.get(tile_level, 0) - number * WIDTH
            name = f"the tile {tile_level}/{number}"
            if held is None or size <= 0 or len(held) != min(size, WIDTH) * HASH_BYTES:
                yield _of_tree(BreakKind.LEAF_MISMATCH, f"{name} does not have the size that it should")
            elif tile_level and held != _roots_of(tile_level - 1, number, min(size, WIDTH)):
                yield _of_tree(BreakKind.LEAF_MISMATCH, f"{name} does not follow from those below it")
            count += 1
        wanted = below + sum(-(-size // WIDTH) for at, size in sizes.items() if at)
        if count < wanted:
            yield _of_tree(BreakKind.LEAF_MISMATCH, f"{wanted - count} tiles are missing")

    def _check_checkpoints(self, origin: str, roots: dict[int, bytes]) -> Iterator[ChainBreak]:
        size, at = 0, None
        before: bytes | None = sealer.NO_CHECKPOINT
        are_chained = False
        for row in Checkpoint.objects.order_by("id").iterator(chunk_size=_PAGE):
            self.checkpoints += 1
            signed = sealer.read(row)
            if signed is None or signed.checkpoint.origin != origin:
                detail = f"the note of checkpoint {row.pk} does not match its row"
                yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
                before = None
                continue
            key = keys.signer_of(signed, self._keys)
            said = signed.checkpoint
            if said.heads is not None and said.heads.count:
                self._with_heads = row.pk
            if key is None or key.key_id != row.key_id:
                detail = f"checkpoint {row.pk} is not signed by a key that was valid then"
                yield _of_tree(BreakKind.SIGNATURE_WRONG, detail)
            elif said.size < size or (at is not None and said.time < at):
                detail = f"checkpoint {row.pk} has a smaller tree or an earlier time than the one before it"
                yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
            elif roots.get(said.size) != said.root:
                detail = (
                    f"the first {said.size} entries are not those that checkpoint {row.pk} was signed over"
                )
                yield _of_tree(BreakKind.ROOT_MISMATCH, detail)
            elif said.previous is None and are_chained:
                detail = f"checkpoint {row.pk} does not say which one came before it"
                yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
            elif said.previous is not None and said.previous != before and before is not None:
                detail = (
                    f"the checkpoint before checkpoint {row.pk} is missing, or is not the one that it names"
                )
                yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
            elif are_chained and at is not None and said.time - at > sealer.SILENCE:
                yield from self._silence(row.pk, at, said)
            are_chained = are_chained or said.previous is not None
            size, at, before = said.size, said.time, said.digest()
        if self.leaves > size:
            detail = f"{self.leaves - size} leaves are under no checkpoint"
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)

    def _silence(self, number: int, since: datetime, said: notes.Checkpoint) -> Iterator[ChainBreak]:
        """No checkpoint for longer than a heartbeat: its signer says why, or it is a finding.

        That a server was down changes nothing: its first checkpoint says that it has started. That it
        was there and did not sign is told, since nothing else would show it.
        """
        between = f"between {chain.time_text(since)} and {chain.time_text(said.time)}"
        if said.resumed is None:
            detail = f"no checkpoint was signed {between}, and checkpoint {number} does not say why"
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
        elif said.resumed is notes.Resumed.STALL:
            self.not_verified.append(f"the server was up and signed no checkpoint {between}")

    def _check_heads(self) -> Iterator[ChainBreak]:
        """What a checkpoint says of the ends of streams is kept here, and no stream is shorter now."""
        pages = HeadPage.objects.order_by("checkpoint_id").values_list("checkpoint_id", flat=True).distinct()
        committed = [each.checkpoint.heads for each in map(_signed, pages) if each is not None]
        if len(pages) != len(committed) or len(committed) > 1:
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, "the ends of streams are of no one checkpoint")
            return
        if [*pages] != ([] if self._with_heads is None else [self._with_heads]):
            detail = f"the ends of streams that checkpoint {self._with_heads} was signed over are missing"
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
            return
        frontier, asked = Frontier(), []
        for line, head in heads.committed():
            frontier.push(merkle.hash_leaf(line))
            if head is None:
                detail = f"the end of stream {frontier.size} cannot be read"
                yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
                continue
            asked.append(head)
            if len(asked) == _PAGE:
                yield from _shortened(asked)
                asked = []
        yield from _shortened(asked)
        found = notes.Heads(frontier.size, frontier.root())
        if pages and committed[0] != found:
            detail = "the ends of streams are not those that their checkpoint was signed over"
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
        for number in heads.misplaced():
            detail = f"page {number} of the ends of streams does not begin where its columns say"
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)

    def _check_unsealed(self) -> Iterator[ChainBreak]:
        """An entry without a leaf is in line for one, and has not been for long."""
        waiting = UnsealedEntry.objects.filter(entry_id=OuterRef("id"))
        rows = _without_leaf().annotate(waits=Exists(waiting)).order_by("id")
        newest = Checkpoint.objects.order_by("-id").values_list("at", flat=True).first()
        for tenant, stream, seq, at, waits in rows.values_list("tenant", "stream", "seq", "at", "waits"):
            if not waits:
                detail = "the entry is neither in the tree nor in line for it"
                yield ChainBreak(tenant, stream, seq, BreakKind.NOT_SEALED, detail)
            elif newest is not None and at < newest - SLACK:
                detail = "the entry is older than the newest checkpoint, but not in its tree"
                yield ChainBreak(tenant, stream, seq, BreakKind.NOT_SEALED, detail)
        gone = ~Exists(LedgerEntry.objects.order_by().filter(id=OuterRef("entry_id")))
        for pk in UnsealedEntry.objects.filter(gone).values_list("entry_id", flat=True)[:_PAGE]:
            yield _of_tree(BreakKind.ROW_MISSING, f"the entry {pk} that waits for the tree is missing")
        sealed = Exists(Leaf.objects.filter(entry_id=OuterRef("entry_id")))
        for pk in UnsealedEntry.objects.filter(sealed).values_list("entry_id", flat=True)[:_PAGE]:
            yield _of_tree(BreakKind.LEAF_MISMATCH, f"the entry {pk} waits for the tree although it is in it")

    def _check_given(self, given: Signed, origin: str, roots: dict[int, bytes]) -> Iterator[ChainBreak]:
        said = given.checkpoint
        if said.origin != origin:
            detail = (
                f"the given checkpoint is of the ledger {said.origin}, this one is {origin or 'not sealed'}"
            )
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
            return
        if keys.signer_of(given, self._keys) is None:
            detail = "the given checkpoint is not signed by a key that this ledger knows"
            yield _of_tree(BreakKind.SIGNATURE_WRONG, detail)
        if said.size > self.leaves:
            detail = f"the given checkpoint is over {said.size} entries, but the tree has {self.leaves}"
            yield _of_tree(BreakKind.TRUNCATED, detail)
        elif roots.get(said.size) != said.root:
            detail = f"the first {said.size} entries are not those that the given checkpoint was signed over"
            yield _of_tree(BreakKind.ROOT_MISMATCH, detail)
        elif not _is_stored(said):
            detail = (
                "the given checkpoint is not among those of this ledger: they were made anew, somebody was "
                "shown another version of the log, or a backup was restored since"
            )
            yield _of_tree(BreakKind.CHECKPOINT_MISMATCH, detail)
        if said.size:
            yield from self._backdated(said.size, said.time)

    def _backdated(self, size: int, time: datetime) -> Iterator[ChainBreak]:
        """Entries that say they are older than the checkpoint, but came into the tree after it."""
        after = Leaf.objects.filter(entry_id=OuterRef("id"), index__gte=size)
        rows = LedgerEntry.objects.filter(Exists(after), at__lt=time - SLACK).order_by("id")
        for tenant, stream, seq in rows.values_list("tenant", "stream", "seq"):
            detail = "the entry is older than the given checkpoint, but not in its tree"
            yield ChainBreak(tenant, stream, seq, BreakKind.NOT_SEALED, detail)


def _signed(checkpoint_id: int) -> Signed | None:
    row = Checkpoint.objects.filter(pk=checkpoint_id).first()
    return None if row is None else sealer.read(row)


def _is_stored(said: notes.Checkpoint) -> bool:
    """Whether this very checkpoint is one of the ledger: another may say the same of the tree."""
    rows = Checkpoint.objects.filter(size=said.size, at=said.time)
    return any(held is not None and held.checkpoint == said for held in map(sealer.read, rows))


def _shortened(committed: Sequence[Mapping[str, Any]]) -> Iterator[ChainBreak]:
    """Streams that no longer hold the entry at which they are known to have ended once."""
    at = {
        (str(head.get("tenant")), str(head.get("stream")), head.get("seq")): head.get("hash")
        for head in committed
    }
    rows = LedgerEntry.objects.filter(
        stream__in={stream for _, stream, _ in at}, seq__in={seq for _, _, seq in at if isinstance(seq, int)}
    )
    columns = rows.values_list("tenant", "stream", "seq", "hash")
    stored = {(tenant, stream, seq): bytes(held).hex() for tenant, stream, seq, held in columns}
    for (tenant, stream, seq), entry_hash in at.items():
        if not isinstance(seq, int) or stored.get((tenant, stream, seq)) != entry_hash:
            detail = "a checkpoint was signed over this stream with another entry here"
            yield ChainBreak(tenant, stream, seq if isinstance(seq, int) else 0, BreakKind.TRUNCATED, detail)


def _of_tree(fault: BreakKind, detail: str) -> ChainBreak:
    return ChainBreak("", actors.SYSTEM, 0, fault, detail)


def _of_entry(pk: int, fault: BreakKind, detail: str) -> ChainBreak:
    tenant, stream, seq = LedgerEntry.objects.values_list("tenant", "stream", "seq").get(pk=pk)
    return ChainBreak(tenant, stream, seq, fault, detail)


def _without_leaf() -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(~Exists(Leaf.objects.order_by().filter(entry_id=OuterRef("id"))))


def _stored_tile(number: int) -> bytes:
    stored = Tile.objects.filter(level=0, number=number).values_list("hashes", flat=True).first()
    return cells.bytes_of(stored) or b""


def _tiles() -> Iterator[tuple[int, int, object]]:
    rows = Tile.objects.order_by("level", "number").values_list("level", "number", "hashes")
    yield from rows.iterator(chunk_size=_PAGE)


def _roots_of(level: int, number: int, count: int) -> bytes:
    """The roots of up to 256 full tiles, side by side: what the tile above them should hold."""
    rows = Tile.objects.filter(level=level, number__gte=number * WIDTH, number__lt=number * WIDTH + count)
    found = b""
    for hashes in rows.order_by("number").values_list("hashes", flat=True):
        frontier, held = Frontier(), cells.bytes_of(hashes) or b""
        for at in range(0, len(held), HASH_BYTES):
            frontier.push(held[at : at + HASH_BYTES])
        found += frontier.root()
    return found
