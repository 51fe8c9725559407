"""The DecisionRecords of a flow for its pack: DSSE envelopes, each as the entry that emitted it names it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from audit import canonical, cells
from audit.events import Kind
from audit.models import DecisionRecord
from audit.packs import sources
from audit.records import dsse, fold
from audit.verification.verify import UNREADABLE

# What the subjects of a record may repeat, by the commitments to it.
_REPEATED: Final[Mapping[str, str]] = {
    Kind.FLOW_OPENED: "trigger_commitment",
    Kind.PROPOSAL_SUBMITTED: "params_commitment",
}

# Kind, number and payload of an entry.
Told = tuple[str, int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record and its envelope; `seq` is the number of the entry that emitted it."""

    seq: int
    said: Mapping[str, Any]
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Records:
    """The records in their order, and by their hashes why there are none of others."""

    found: Sequence[StoredRecord] = ()
    absent: Mapping[str, str] = field(default_factory=dict)


def collect(*, tenant: str, dfid: UUID, entries: Iterable[Told]) -> Records:
    """The records that the entries of a flow have emitted.

    One whose row is not what its entry names is absent, and so is one that may repeat erased words.
    """
    told = list(entries)
    emitted = [(seq, payload) for kind, seq, payload in told if kind == Kind.RECORD_EMITTED]
    if not emitted:
        return Records()
    rows = DecisionRecord.objects.filter(tenant=tenant, dfid=dfid)
    columns = rows.values_list("seq", "body", "signature", "key_id")
    # A row is kept by the last entry that it is folded from, which is the one before its own.
    stored = {seq + 1: held for seq, *held in columns if isinstance(seq, int)}
    is_erased = _are_words_erased(tenant, told)
    found: list[StoredRecord] = []
    absent: dict[str, str] = {}
    for seq, payload in emitted:
        record = None if seq not in stored else _read(seq, payload, stored[seq])
        if record is None:
            absent[str(payload.get("record_hash"))] = sources.DIFFERENT if seq in stored else sources.GONE
        elif is_erased and record.said["subject_ids"]:
            absent[str(payload["record_hash"])] = sources.ERASED
        else:
            found.append(record)
    return Records(found, {name: why for name, why in absent.items() if sources.is_digest(name)})


def _read(seq: int, payload: Mapping[str, Any], row: Sequence[object]) -> StoredRecord | None:
    """The record of a row; None where it is not, to the byte, what the entry names."""
    body, signature = (cells.bytes_of(cell) or b"" for cell in row[:2])
    try:
        record = canonical.decode(body)
        sealed = fold.sealed(record, prev_hash=record["audit"]["prev_hash"], key_id=payload["key_id"])
        named = (payload["record_hash"], payload["signature"], payload["key_id"])
        is_same = canonical.encode(sealed) == body and "subject_ids" in record
    except UNREADABLE:
        return None
    if not is_same or (sealed["audit"]["record_hash"], signature.hex(), row[2]) != named:
        return None
    envelope = dsse.envelope(body, signature=signature, key_id=payload["key_id"])
    return StoredRecord(seq, record, canonical.encode(envelope))


def _are_words_erased(tenant: str, told: Iterable[Told]) -> bool:
    """Whether words were erased of which the names of subjects may be made."""
    named = [{name: payload.get(name)} for kind, _, payload in told if (name := _REPEATED.get(kind))]
    return sources.has_erased(tenant=tenant, payloads=named)
