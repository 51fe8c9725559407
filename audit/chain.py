"""The hash chain of a stream: the form of a body, its hash, and the check of stored rows.

hash = SHA-256(prev_hash || body). The body holds every column, so a row can be neither moved nor relabelled.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from audit import canonical

GENESIS_HASH = bytes(32)


class BreakKind(StrEnum):
    """Why a row, or the end of a stream, is not what was written."""

    GAP = "GAP"
    OUT_OF_ORDER = "OUT_OF_ORDER"
    PREV_MISMATCH = "PREV_MISMATCH"
    HASH_MISMATCH = "HASH_MISMATCH"
    NOT_CANONICAL = "NOT_CANONICAL"
    COLUMN_MISMATCH = "COLUMN_MISMATCH"
    TRUNCATED = "TRUNCATED"
    HEAD_MISMATCH = "HEAD_MISMATCH"
    HEAD_MISSING = "HEAD_MISSING"
    PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"
    PAYLOAD_MISSING = "PAYLOAD_MISSING"
    ROW_MISSING = "ROW_MISSING"
    ROW_MISMATCH = "ROW_MISMATCH"
    ROW_WITHOUT_ENTRY = "ROW_WITHOUT_ENTRY"
    SIGNATURE_WRONG = "SIGNATURE_WRONG"
    LEAF_MISMATCH = "LEAF_MISMATCH"
    NOT_SEALED = "NOT_SEALED"
    CHECKPOINT_MISMATCH = "CHECKPOINT_MISMATCH"
    ROOT_MISMATCH = "ROOT_MISMATCH"
    TRIGGER_MISSING = "TRIGGER_MISSING"
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One stored entry, columns as they stand in the database. `at` is aware; hashes are 32 bytes."""

    tenant: str
    stream: str
    seq: int
    kind: str
    at: datetime
    actor: str
    body: bytes
    prev_hash: bytes
    hash: bytes

    def columns(self) -> dict[str, Any]:
        """What the body says again of the columns: every member of it but the payload."""
        return {
            "tenant": self.tenant,
            "stream": self.stream,
            "seq": self.seq,
            "kind": self.kind,
            "at": time_text(self.at),
            "actor": self.actor,
        }


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first bad place: stream, sequence number, fault and a sentence with what was found."""

    tenant: str
    stream: str
    seq: int
    fault: BreakKind
    detail: str


def time_text(at: datetime) -> str:
    """RFC 3339 in UTC with six decimals and Z, the one written form of a time in the ledger."""
    return _text_of_utc(at if at.tzinfo is UTC else at.astimezone(UTC))


@lru_cache(maxsize=64)  # one moment stands in all that a transaction writes
def _text_of_utc(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def body_bytes(
    *, tenant: str, stream: str, seq: int, kind: str, at: datetime, actor: str, payload: Mapping[str, Any]
) -> bytes:
    """The canonical bytes that an entry stores and hashes."""
    return canonical.encode(
        {
            "tenant": tenant,
            "stream": stream,
            "seq": seq,
            "kind": kind,
            "at": time_text(at),
            "actor": actor,
            "payload": dict(payload),
        }
    )


def entry_hash(prev_hash: bytes, body: bytes) -> bytes:
    """SHA-256(prev_hash || body), 32 bytes."""
    return hashlib.sha256(prev_hash + body).digest()


def commitment(salt: bytes, body: bytes) -> str:
    """The hexadecimal commitment to a payload that is kept outside the chain: SHA-256(salt || body)."""
    return hashlib.sha256(salt + body).hexdigest()


@dataclass(slots=True)
class ChainVerifier:
    """The state of a verification: rows come in (tenant, stream, seq) order, one at a time.

    `heads` keeps the last (seq, hash) of each stream (some 300 bytes each), for the comparison with the
    heads that are stored elsewhere: a chain alone does not show that its end was cut off.
    """

    entries: int = 0
    # The decoded body of the last row that was whole; None after one that was not.
    body: Mapping[str, Any] | None = None
    heads: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)

    def step(self, row: LedgerRow) -> ChainBreak | None:
        """Check one row against its predecessor and itself; None when it is whole."""
        key = (row.tenant, row.stream)
        seq, prev_hash = self.heads.get(key, (0, GENESIS_HASH))
        self.body = None
        found: tuple[BreakKind, str] | None
        if row.seq > seq + 1:
            found = BreakKind.GAP, f"expected entry {seq + 1}"
        elif row.seq <= seq:
            found = BreakKind.OUT_OF_ORDER, f"came after entry {seq}"
        elif row.prev_hash != prev_hash:
            found = BreakKind.PREV_MISMATCH, "does not name the hash of the entry before it"
        elif row.hash != entry_hash(prev_hash, row.body):
            found = BreakKind.HASH_MISMATCH, "the stored hash is not the hash of the stored bytes"
        else:
            found, self.body = _read_body(row)
        if found is not None:
            return ChainBreak(row.tenant, row.stream, row.seq, *found)
        self.heads[key] = (row.seq, row.hash)
        self.entries += 1
        return None

    def go_on(self, row: LedgerRow) -> None:
        """Take a row for its stream's end although it is bad, so that what follows it is judged by itself."""
        self.heads[row.tenant, row.stream] = (row.seq, row.hash)
        self.entries += 1


def verify(rows: Iterable[LedgerRow]) -> ChainVerifier | ChainBreak:
    """Check rows in (tenant, stream, seq) order: the finished Walk when whole, else the first Break."""
    walk = ChainVerifier()
    for row in rows:
        found = walk.step(row)
        if found is not None:
            return found
    return walk


def compare_head(
    walk: ChainVerifier, *, tenant: str, stream: str, seq: int, head_hash: bytes
) -> ChainBreak | None:
    """Check a stored head against the last entry of its stream. A head of seq 0 means: no entry yet."""
    last_seq, last_hash = walk.heads.get((tenant, stream), (0, GENESIS_HASH))
    if seq > last_seq:
        detail = f"the head says {seq} entries, the last one found is {last_seq}"
        return ChainBreak(tenant, stream, last_seq + 1, BreakKind.TRUNCATED, detail)
    if seq < last_seq:
        return ChainBreak(
            tenant, stream, seq + 1, BreakKind.HEAD_MISMATCH, f"the head stands at {seq}, before {last_seq}"
        )
    if seq and head_hash != last_hash:
        return ChainBreak(
            tenant, stream, seq, BreakKind.HEAD_MISMATCH, "the head holds another hash than the last entry"
        )
    return None


def _read_body(row: LedgerRow) -> tuple[tuple[BreakKind, str], None] | tuple[None, Mapping[str, Any]]:
    """The hash of these bytes is right; do they mean what the columns say? The fault, or the body."""
    try:
        body = canonical.decode(row.body)
        if canonical.encode(body) != row.body:
            return (BreakKind.NOT_CANONICAL, "the stored bytes are not canonical JSON"), None
    except canonical.CanonicalError:
        return (BreakKind.NOT_CANONICAL, "the stored bytes are not canonical JSON"), None
    if not isinstance(body, dict):
        return (BreakKind.COLUMN_MISMATCH, "the body is not an object"), None
    columns = row.columns()
    if body.keys() != columns.keys() | {"payload"}:
        return (BreakKind.COLUMN_MISMATCH, "the body holds other members than an entry has"), None
    for name, value in columns.items():
        if body[name] != value:
            return (BreakKind.COLUMN_MISMATCH, f"column {name} differs from the body"), None
    return None, body
