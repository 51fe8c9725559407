"""What an evidence pack is about, read from the database: sealed entries, and the bytes behind them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from audit import actors, canonical, cells, chain, erased_keys
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from audit.packs import progress, records, sources
from audit.packs.progress import Stage, Watch
from audit.packs.records import StoredRecord
from audit.sealing import keys, proofs
from audit.sealing.keys import KnownKey
from audit.sealing.notes import Signed
from audit.sealing.proofs import Inclusion

EMPTIED = sources.EMPTIED


class NotSealedError(Exception):
    """No checkpoint covers any entry of the flow yet, so nothing could be proved by a pack."""


@dataclass(frozen=True, slots=True)
class SealedEntry:
    """An entry as it is stored, and its place in the tree.

    `said` is its body, decoded; empty where that says nothing.
    """

    tenant: str
    stream: str
    seq: int
    body: bytes
    prev_hash: bytes
    hash: bytes
    place: Inclusion
    said: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind, as the stored bytes name it."""
        return str(self.said.get("kind", ""))

    @property
    def at(self) -> str:
        """The time, as the stored bytes have it: RFC 3339 in UTC."""
        return str(self.said.get("at", ""))

    @property
    def actor(self) -> str:
        """Who acted, as the stored bytes name it."""
        return str(self.said.get("actor", ""))

    @property
    def payload(self) -> Mapping[str, Any]:
        """The payload, empty where it is no object."""
        payload = self.said.get("payload")
        return payload if isinstance(payload, dict) else {}


@dataclass(frozen=True, slots=True)
class Hidden:
    """The salt and the words behind a commitment; both None where they were erased."""

    salt: bytes | None
    body: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """Everything that a pack shows, in the order in which it does.

    `entries` are those of the flow, `begun` those that begin signing keys, `records` the decision records.
    `absent` says of each digest or commitment that is named and not here why it is not; of a record by its
    hash.
    """

    tenant: str
    dfid: UUID
    checkpoint: Signed
    keys: Sequence[KnownKey]
    entries: Sequence[SealedEntry]
    begun: Sequence[SealedEntry]
    head: Mapping[str, Any] | None
    payloads: Mapping[str, Hidden]
    objects: Mapping[str, bytes]
    records: Sequence[StoredRecord] = ()
    absent: Mapping[str, str] = field(default_factory=dict)


def read(*, tenant: str, dfid: UUID, watch: Watch = progress.unwatched) -> Contents | None:
    """What there is of a flow, in the caller's snapshot; None where no entry is about it.

    Raises NotSealedError where no checkpoint covers an entry of it.
    """
    stream = str(dfid)
    watch(Stage.ENTRIES, 0, 0)
    rows = _rows(tenant=tenant, stream=stream)
    if not rows:
        return None
    checkpoint = proofs.latest()
    if checkpoint is None:
        raise NotSealedError
    rows += _rows(tenant=tenant, stream=actors.SYSTEM, kind=Kind.SIGNING_KEY_BEGUN)
    watch(Stage.PROOFS, 0, len(rows))
    sealed = _sealed(rows, checkpoint.checkpoint.size, watch)
    entries = [entry for entry in sealed if entry.stream == stream]
    if not entries:
        raise NotSealedError
    watch(Stage.ROWS, 0, len(entries))
    wanted = dict.fromkeys(
        digest for entry in entries for digest in sources.list_named(entry.kind, entry.payload)
    )
    found = sources.collect(tenant=tenant, dfid=dfid, wanted=list(wanted))
    payloads, without = _payloads(tenant, entries)
    watch(Stage.RECORDS, 0, 0)
    emitted = records.collect(
        tenant=tenant, dfid=dfid, entries=[(entry.kind, entry.seq, entry.payload) for entry in entries]
    )
    return Contents(
        tenant=tenant,
        dfid=dfid,
        checkpoint=checkpoint,
        keys=keys.known(tenant=tenant),
        entries=entries,
        begun=[entry for entry in sealed if entry.stream != stream],
        head=proofs.head(tenant=tenant, stream=stream),
        payloads=payloads,
        objects=found.bodies,
        records=emitted.found,
        absent={**found.absent, **without, **emitted.absent},
    )


def _rows(*, tenant: str, **wanted: Any) -> list[LedgerEntry]:
    columns = ("id", "tenant", "stream", "seq", "body", "prev_hash", "hash")
    return list(LedgerEntry.objects.filter(tenant=tenant, **wanted).order_by("seq").only(*columns))


def _sealed(rows: Sequence[LedgerEntry], size: int, watch: Watch) -> list[SealedEntry]:
    """The entries that a tree of `size` holds, in the order of `rows`."""
    # A cell of another type is no entry: the gap that it leaves is what the verifier names.
    readable = [
        row
        for row in rows
        if isinstance(row.seq, int) and None not in map(cells.bytes_of, (row.body, row.prev_hash, row.hash))
    ]
    places: dict[int, Inclusion] = {}
    # In parts, so that whoever waits sees how far it is.
    for start in range(0, len(readable), progress.EVERY):
        part = [(row.pk, bytes(row.hash)) for row in readable[start : start + progress.EVERY]]
        places |= proofs.inclusions(entries=part, size=size)
        watch(Stage.PROOFS, min(start + progress.EVERY, len(readable)), len(readable))
    return [
        SealedEntry(
            tenant=row.tenant,
            stream=row.stream,
            seq=row.seq,
            body=bytes(row.body),
            prev_hash=bytes(row.prev_hash),
            hash=bytes(row.hash),
            place=places[row.pk],
            said=_said(bytes(row.body)),
        )
        for row in readable
        if row.pk in places
    ]


def _said(body: bytes) -> Mapping[str, Any]:
    try:
        said = canonical.decode(body)
    except canonical.CanonicalError:
        return {}
    return said if isinstance(said, dict) else {}


def _payloads(tenant: str, entries: Iterable[SealedEntry]) -> tuple[dict[str, Hidden], dict[str, str]]:
    """What the commitments of the entries hide, in their order; and why others have nothing to show."""
    named = dict.fromkeys(value for entry in entries for _, value in sources.list_commitments(entry.payload))
    rows = Payload.objects.filter(tenant=tenant, commitment__in=list(named))
    stored = {row.commitment: row.held for row in rows}
    emptied = {name for name, cells_of in stored.items() if cells_of == (None, None)}
    erased = set[str]()
    if emptied:
        erased = _erased(tenant) | _erased_with_flow(entries)
        erased |= erased_keys.find_covered(tenant=tenant, commitments=emptied - erased, is_compared=True)
    shown: dict[str, Hidden] = {}
    absent: dict[str, str] = {}
    for name in named:
        salt, body = map(cells.bytes_of, stored.get(name, (None, None)))
        if name in emptied & erased:
            shown[name] = Hidden(None, None)
        elif salt is not None and body is not None and chain.commitment(salt, body) == name:
            shown[name] = Hidden(salt, body)
        elif name in emptied:
            absent[name] = EMPTIED
        else:
            absent[name] = sources.DIFFERENT if name in stored else sources.GONE
    return shown, absent


def _erased(tenant: str) -> set[str]:
    """The commitments whose erasure an entry records; asked only where something was erased."""
    rows = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.PAYLOAD_ERASED, stream=actors.SYSTEM)
    bodies = rows.order_by().values_list("body", flat=True)
    return {str(_payload_of(_said(bytes(body))).get("commitment")) for body in bodies}


def _erased_with_flow(entries: Iterable[SealedEntry]) -> set[str]:
    """The commitments that an erasure of the whole flow took, in the order of its entries."""
    named: set[str] = set()
    taken: set[str] = set()
    for entry in entries:
        named |= {value for _, value in sources.list_commitments(entry.payload)}
        if entry.kind == Kind.FLOW_ERASED:
            taken |= named
    return taken


def _payload_of(said: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = said.get("payload")
    return payload if isinstance(payload, dict) else {}
