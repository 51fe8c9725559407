"""The chain of one flow for its replay: every entry in order, its leaf in the tree, and the flow's head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import canonical, cells, chain
from audit.chain import BreakKind, ChainBreak, ChainVerifier, LedgerRow
from audit.events import EVENTS, Kind
from audit.models import Leaf, LedgerEntry
from audit.sealing import merkle
from audit.sealing.tiles import TileError, Tiles
from audit.verification import verify
from audit.verification.row_checks import Entry
from runtime.flows.models import Flow

_NO_BYTES = "a value of another type"


@dataclass(frozen=True, slots=True)
class Broken:
    """The first bad place of a chain, with the value there as it was recorded and as it is found."""

    seq: int
    path: str
    recorded: Any
    found: Any


def walk(*, tenant: str, dfid: UUID) -> list[Entry] | Broken | None:
    """The entries of a flow up to its head, or the first bad place; None where there is no flow."""
    stream = str(dfid)
    head = Flow.objects.of(tenant).filter(pk=dfid).values_list("head_seq", "head_hash").first()
    stored = _read(tenant, stream)
    if isinstance(stored, Broken):
        return stored
    if head is None:
        return Broken(1, "/flow", stored[-1].hash.hex(), None) if stored else None
    seq, head_hash = head
    held = cells.bytes_of(head_hash)
    if not isinstance(seq, int) or held is None:
        return Broken(len(stored), "/flow/head_hash", stored[-1].hash.hex() if stored else None, _NO_BYTES)
    walked = ChainVerifier()
    entries = _step_through(stored, walked, held)
    if isinstance(entries, Broken):
        return entries
    found = chain.compare_head(walked, tenant=tenant, stream=stream, seq=seq, head_hash=held)
    if found is not None:
        return _of_head(found, walked.heads.get((tenant, stream), (0, chain.GENESIS_HASH)), seq, held)
    if not entries:
        return Broken(0, "/flow", None, "a flow that no entry opened")
    return _compare_leaves(tenant, stream, stored) or entries


def _step_through(
    stored: Sequence[LedgerRow], walked: ChainVerifier, head_hash: bytes
) -> list[Entry] | Broken:
    entries = list[Entry]()
    for number, row in enumerate(stored):
        try:
            found = walked.step(row)
        except verify.UNREADABLE as error:
            return _unreadable(row.seq, error)
        if found is not None:
            following = stored[number + 1].prev_hash if number + 1 < len(stored) else head_hash
            return _of_entry(found, row, walked, following)
        entry = _entry(row, walked)
        if isinstance(entry, Broken):
            return entry
        entries.append(entry)
    return entries


def _read(tenant: str, stream: str) -> list[LedgerRow] | Broken:
    rows = list[LedgerRow]()
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream).order_by("seq")
    try:
        rows.extend(verify.rows(entries))
    except verify.UNREADABLE as error:
        return _unreadable(len(rows) + 1, error)
    return rows


def _unreadable(seq: int, error: Exception) -> Broken:
    return Broken(seq, f"/entries/{seq}", "an entry", f"cannot be read ({type(error).__name__})")


def _entry(row: LedgerRow, walked: ChainVerifier) -> Entry | Broken:
    """The entry of a row that is whole; its payload must be one of its kind."""
    payload = walked.body["payload"] if walked.body else None
    try:
        EVENTS[Kind(row.kind)].model_validate_json(canonical.encode(payload), extra="ignore")
    except ValueError:
        return Broken(row.seq, f"/entries/{row.seq}/payload", row.kind, "no payload of this kind")
    return Entry(row.tenant, row.stream, row.seq, row.kind, row.at, row.actor, payload or {})


def _of_entry(found: ChainBreak, row: LedgerRow, walked: ChainVerifier, following: bytes) -> Broken:
    """`following` is the hash of this row as the next one, or the head, has it."""
    last, last_hash = walked.heads.get((row.tenant, row.stream), (0, chain.GENESIS_HASH))
    path = f"/entries/{row.seq}"
    match found.fault:
        case BreakKind.GAP:
            # What follows still names the hash of the entry that is gone.
            missing = row.seq - 1
            return Broken(last + 1, f"/entries/{last + 1}", _only(last + 1 == missing, row.prev_hash), None)
        case BreakKind.PREV_MISMATCH:
            return Broken(row.seq, f"{path}/prev_hash", last_hash.hex(), row.prev_hash.hex())
        case BreakKind.HASH_MISMATCH:
            hashed = chain.entry_hash(last_hash, row.body).hex()
            if following == row.hash:
                return Broken(row.seq, f"{path}/body", row.hash.hex(), hashed)
            return Broken(row.seq, f"{path}/hash", hashed, row.hash.hex())
        case BreakKind.COLUMN_MISMATCH:
            return _of_column(row, path, is_body_changed=following != row.hash)
    return Broken(row.seq, path, row.hash.hex(), found.detail)


def _only(is_known: bool, value: bytes) -> str:
    return value.hex() if is_known else "an entry"


def _of_column(row: LedgerRow, path: str, *, is_body_changed: bool) -> Broken:
    body = canonical.decode(row.body)
    columns = row.columns()
    for name, value in columns.items():
        recorded = body.get(name) if isinstance(body, dict) else None
        if recorded != value and is_body_changed:
            return Broken(row.seq, f"{path}/body/{name}", value, recorded)
        if recorded != value:
            return Broken(row.seq, f"{path}/{name}", recorded, value)
    return Broken(row.seq, f"{path}/body", sorted({*columns, "payload"}), sorted(body))


def _of_head(found: ChainBreak, last: tuple[int, bytes], seq: int, head_hash: bytes) -> Broken:
    last_seq, last_hash = last
    if found.fault is BreakKind.TRUNCATED:
        return Broken(last_seq + 1, f"/entries/{last_seq + 1}", _only(seq == last_seq + 1, head_hash), None)
    if seq != last_seq:
        return Broken(last_seq, "/flow/head_seq", last_seq, seq)
    return Broken(last_seq, "/flow/head_hash", last_hash.hex(), head_hash.hex())


def _compare_leaves(tenant: str, stream: str, stored: Sequence[LedgerRow]) -> Broken | None:
    """A chain that was made anew is whole; the tree still has the hashes that were sealed."""
    ids = dict(LedgerEntry.objects.filter(tenant=tenant, stream=stream).values_list("seq", "id"))
    places = dict(Leaf.objects.filter(entry_id__in=ids.values()).values_list("entry_id", "index"))
    tiles = Tiles()
    for row in stored:
        index = places.get(ids[row.seq])
        if index is None:
            continue
        try:
            sealed = tiles.read(0, index)
        except TileError:
            continue  # `verify_ledger` names tiles that are gone
        if (hashed := merkle.hash_leaf(row.hash)) != sealed:
            return Broken(row.seq, f"/entries/{row.seq}/leaf_hash", sealed.hex(), hashed.hex())
    return None
