"""Entries as they were sealed, in the order of the tree."""

from datetime import datetime

from audit import canonical, chain
from audit.models import Leaf, LedgerEntry, Tree
from runtime.contracts.receiver import FlowEntry, SealedEntry

ADVICE = "run manage.py verify_ledger"


class NotAsSealedError(Exception):
    """An entry is not what was sealed: it is not sent, and nothing after it. The text is for people."""


def size() -> int:
    """How many leaves the tree has."""
    return Tree.objects.values_list("size", flat=True).first() or 0


def origin() -> str:
    """The name of the tree in every checkpoint; empty before the first entry was sealed."""
    return Tree.objects.values_list("origin", flat=True).first() or ""


def list_leaves(*, tenant: str, from_leaf: int, most: int) -> tuple[list[SealedEntry], int]:
    """The entries of `tenant` on at most `most` leaves, and the leaf after the last one that was looked at.

    Raises `NotAsSealedError` for an entry that is gone or was changed, unless whole ones come before it:
    these are given, and the leaf is the bad one.
    """
    leaves = list(
        Leaf.objects.filter(index__gte=from_leaf).order_by("index").values_list("index", "entry_id")[:most]
    )
    if not leaves:
        return [], from_leaf
    named = origin()
    rows = LedgerEntry.objects.in_bulk([entry_id for _, entry_id in leaves])
    found: list[SealedEntry] = []
    for expected, (leaf, entry_id) in enumerate(leaves, start=from_leaf):
        try:
            entry = _read(named, expected, leaf, rows.get(entry_id))
        except NotAsSealedError:
            if expected == from_leaf:
                raise
            return found, expected
        if entry.body["tenant"] == tenant:
            found.append(entry)
    return found, leaves[-1][0] + 1


def list_of_flow(*, tenant: str, dfid: str, last_seq: int) -> list[FlowEntry]:
    """The entries of a flow up to a number.

    Raises `NotAsSealedError` where one is gone or was changed.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=dfid, seq__lte=last_seq).order_by("seq")
    found, before = [], chain.GENESIS_HASH
    for seq, row in enumerate(rows, start=1):
        body = bytes(row.body)
        before = chain.entry_hash(before, body)
        if row.seq != seq or before != bytes(row.hash):
            raise NotAsSealedError(f"the entry {seq} of the flow {dfid} is missing or was changed: {ADVICE}")
        read = canonical.decode(body)
        at = datetime.fromisoformat(read["at"])
        found.append(FlowEntry(seq=seq, kind=read["kind"], at=at, payload=read["payload"]))
    return found


def _read(origin: str, expected: int, leaf: int, row: LedgerEntry | None) -> SealedEntry:
    if row is None or leaf != expected:
        raise NotAsSealedError(f"the entry of leaf {expected} is missing: {ADVICE}")
    body, prev_hash, entry_hash = bytes(row.body), bytes(row.prev_hash), bytes(row.hash)
    if chain.entry_hash(prev_hash, body) != entry_hash:
        raise NotAsSealedError(f"the entry of leaf {leaf} was changed: {ADVICE}")
    try:
        read = canonical.decode(body)
    except canonical.CanonicalError as error:
        raise NotAsSealedError(f"the entry of leaf {leaf} cannot be read: {ADVICE}") from error
    return SealedEntry(
        origin=origin,
        leaf=leaf,
        entry_hash=entry_hash.hex(),
        prev_hash=prev_hash.hex(),
        body=read,
        at=datetime.fromisoformat(read["at"]),
    )
