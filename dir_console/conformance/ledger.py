"""The newest part of the ledger, verified; `manage.py verify_ledger` verifies all of it."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import UUID

from audit import cells, chain
from audit.chain import ChainVerifier, LedgerRow
from audit.models import Checkpoint, Leaf, LedgerEntry, StreamHead, Tree
from audit.sealing import keys, merkle, proofs, sealer
from audit.sealing.tiles import TileError, Tiles
from audit.verification import triggers, verify
from dir_console.conformance.items import Answer, Finding, counted, judged
from dir_console.conformance.sample import Sample
from runtime.flows.models import Flow

ENTRIES: Final = 1000


def check_ledger(sample: Sample) -> Finding:
    """Chains, heads and leaves of the newest entries; the newest checkpoint; a change in memory; triggers."""
    with verify.snapshot():
        walk, rows, wrong = _walk(sample.tenant)
        wrong += _heads(sample.tenant, walk)
        wrong += _leaves(sample.tenant, rows)
        sizes, of_tree = _tree(sample.tenant)
    wrong += of_tree
    wrong += [f"The trigger {name} is missing or changed." for name in triggers.missing()]
    if rows and not _is_noticed(rows[-1]):
        wrong.append("A byte of an entry was changed in memory, and the check did not notice.")
    tried = (
        f"Hashed the newest {counted(len(rows), 'entry', 'entries')} again and compared them with their "
        "columns, with the ends of their streams and with their leaves in the tree; verified the newest "
        "checkpoint and the proof that its tree begins with the one before; changed one byte in memory and "
        "checked that."
    )
    seen = f"{counted(len(rows), 'entry', 'entries')} in {counted(len(walk.heads), 'stream')} checked; "
    seen += (
        f"the tree of {sizes[-1]} leaves begins with that of {sizes[0]}." if sizes else "no checkpoint yet."
    )
    if not rows:
        return Finding(
            answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why="The ledger has no entry yet."
        )
    short = (
        [] if sizes else ["No checkpoint was signed yet: the server signs one within seconds of a change."]
    )
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def _walk(tenant: str) -> tuple[ChainVerifier, list[LedgerRow], list[str]]:
    """Step through the newest entries, stream by stream, each from the entry before them on."""
    newest = LedgerEntry.objects.filter(tenant=tenant).order_by("-id")
    first = min(newest.values_list("id", flat=True)[:ENTRIES], default=None)
    walk, wrong = ChainVerifier(), list[str]()
    if first is None:
        return walk, [], wrong
    rows = list(
        verify.rows(LedgerEntry.objects.filter(tenant=tenant, id__gte=first).order_by("stream", "seq"))
    )
    for row in rows:
        if (tenant, row.stream) not in walk.heads and row.seq > 1:
            before = LedgerEntry.objects.filter(tenant=tenant, stream=row.stream, seq=row.seq - 1)
            held = cells.bytes_of(before.values_list("hash", flat=True).first())
            if held is not None:
                walk.heads[tenant, row.stream] = (row.seq - 1, held)
        found = walk.step(row)
        if found is not None:
            wrong.append(f"Stream {found.stream}, entry {found.seq}: {found.detail}.")
            walk.go_on(row)
    return walk, rows, wrong


def _heads(tenant: str, walk: ChainVerifier) -> Iterator[str]:
    """Streams whose stored end is another one than the last entry that was walked."""
    streams = {stream for _, stream in walk.heads}
    flows = set[UUID]()
    for stream in streams:
        with suppress(ValueError):  # the stream of an agent, a person or the system
            flows.add(UUID(stream))
    of_flows = Flow.objects.of(tenant).filter(dfid__in=flows).values_list("dfid", "head_seq", "head_hash")
    stored = {str(dfid): (seq, cells.bytes_of(held)) for dfid, seq, held in of_flows}
    others = StreamHead.objects.filter(tenant=tenant, stream__in=streams).values_list("stream", "seq", "hash")
    stored |= {stream: (seq, cells.bytes_of(held)) for stream, seq, held in others}
    for stream in sorted(streams):
        seq, held = stored.get(stream, (0, None))
        if held is None:
            yield f"Stream {stream} has entries, and no stored end."
        elif found := chain.compare_head(walk, tenant=tenant, stream=stream, seq=seq, head_hash=held):
            yield f"Stream {stream}, entry {found.seq}: {found.detail}."


def _leaves(tenant: str, rows: list[LedgerRow]) -> Iterator[str]:
    """Entries that are not those that were sealed under their numbers."""
    by_stream: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        by_stream[row.stream].append(row)
    tiles = Tiles()
    for stream, of_stream in by_stream.items():
        ends = (of_stream[0].seq, of_stream[-1].seq)
        entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__range=ends)
        ids = dict(entries.values_list("seq", "id"))
        places = dict(Leaf.objects.filter(entry_id__in=ids.values()).values_list("entry_id", "index"))
        for row in of_stream:
            index = places.get(ids.get(row.seq, 0))
            try:
                if index is not None and tiles.read(0, index) != merkle.hash_leaf(row.hash):
                    yield f"Stream {stream}, entry {row.seq} is not the one that was sealed as leaf {index}."
            except TileError:
                yield f"Leaf {index}, of stream {stream}, entry {row.seq}, is missing in the tree."


def _tree(tenant: str) -> tuple[list[int], list[str]]:
    """The sizes of the two newest checkpoints, the older one first, and what is wrong with them."""
    newest = list(Checkpoint.objects.order_by("-id")[:2])[::-1]
    known, tree, wrong = keys.known(tenant=tenant), Tree.objects.first(), list[str]()
    for row in newest:
        signed = sealer.read(row)
        if signed is None or tree is None or signed.checkpoint.origin != tree.origin:
            wrong.append(f"The note of checkpoint {row.pk} does not match its row.")
        elif keys.signer_of(signed, known) is None:
            wrong.append(f"Checkpoint {row.pk} is not signed by a key that was valid then.")
        if proofs.root_at(row.size) != bytes(row.root):
            wrong.append(
                f"The first {row.size} entries are not those that checkpoint {row.pk} was signed over."
            )
    if len(newest) > 1:
        before, last = newest
        proof = proofs.consistency(from_size=before.size, to_size=last.size)
        if proof is None or not merkle.verify_consistency(
            from_size=before.size,
            to_size=last.size,
            from_root=bytes(before.root),
            to_root=bytes(last.root),
            proof=proof,
        ):
            wrong.append(f"The tree of checkpoint {last.pk} does not begin with that of {before.pk}.")
    return [row.size for row in newest], wrong


def _is_noticed(row: LedgerRow) -> bool:
    """Whether an entry with another byte is found to be wrong."""
    walk = ChainVerifier()
    walk.heads[row.tenant, row.stream] = (row.seq - 1, row.prev_hash)
    changed = bytes([row.body[0] ^ 1]) + row.body[1:]
    return walk.step(replace(row, body=changed)) is not None
