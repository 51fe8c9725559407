"""One walk over entries in the order of their streams: what `verify_ledger` does with each of them.

A walk covers a span of streams. Streams do not depend on each other, so several processes may each walk over
a span of their own; what they found and counted is put together afterwards.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, runtime_checkable

from django.db import connection
from django.db.models import QuerySet

from audit import actors, canonical, cells, chain, erased_keys
from audit.chain import BreakKind, ChainBreak, ChainVerifier, LedgerRow
from audit.events import EVENTS, Kind
from audit.models import ClassKey, LedgerEntry, Payload
from audit.payload_cipher import Opened, State
from audit.verification import row_checks, verify
from audit.verification.row_checks import Entry, NotProved

_CHUNK = 2000
# What finds something, in the order in which findings are told; the checks of rows come after these.
WALK, HEADS, TREE, CHECKS = range(4)
_SELECT = """
SELECT tenant, stream, CAST(seq AS INTEGER), kind, CAST(at AS TEXT), actor, body, prev_hash, hash
FROM audit_ledgerentry {where} ORDER BY tenant, stream, seq
"""


@runtime_checkable
class StreamCheck(Protocol):
    """A check that looks at streams one by one, so that each of several processes may have one."""

    def flush(self) -> Iterable[ChainBreak]: ...
    def absorb(self, other: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Span:
    """The streams from `first` on and before `end`, each a tenant and a stream; None: from or to the end."""

    first: tuple[Any, Any] | None = None
    end: tuple[Any, Any] | None = None

    def where(self) -> tuple[str, list[Any]]:
        """The condition in SQL with its values; empty for all streams."""
        parts = [("(tenant, stream) >= (%s, %s)", self.first), ("(tenant, stream) < (%s, %s)", self.end)]
        held = [(sql, place) for sql, place in parts if place is not None]
        return " AND ".join(sql for sql, _ in held), [value for _, place in held for value in place]


@dataclass(slots=True)
class Noted:
    """The first `most` findings in the order in which they are told, and the number of the others.

    What names an entry says most about what was changed, so it comes first; then what names a stream. Then
    they come by what found them, and those of one stream after another, however they were found.
    """

    most: int
    count: int = 0
    _kept: list[tuple[tuple[Any, ...], ChainBreak]] = field(default_factory=list)

    def note(self, rank: int, found: Iterable[ChainBreak], *, by_stream: bool = False) -> None:
        """Keep findings; `by_stream` says that they are found stream by stream, in any order of streams."""
        for item in found:
            place = (0, item.tenant, item.stream) if by_stream else (1, "", "")
            self._kept.append(((not item.seq, not item.tenant, rank, *place, self.count), item))
            self.count += 1
        if len(self._kept) > 2 * self.most + _CHUNK:
            self._cut()

    def absorb(self, other: "Noted") -> None:
        """Take what another walk has noted, of other streams."""
        self._kept += other._kept
        self.count += other.count
        self._cut()

    def told(self) -> list[ChainBreak]:
        """What is kept, in order."""
        self._cut()
        return [item for _, item in self._kept]

    def _cut(self) -> None:
        self._kept.sort(key=lambda pair: pair[0])
        del self._kept[self.most :]


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry with a cell of another type; its hash, where that can be read, lets the walk go on."""

    found: ChainBreak
    hash: bytes


def walk_over(span: Span, checks: Sequence[row_checks.RowCheck], noted: Noted) -> ChainVerifier:
    """Check each entry of the streams, show it to the checks of its kind, and flush those of streams."""
    walk, by_kind = ChainVerifier(), defaultdict[str, list[tuple[int, row_checks.RowCheck]]](list)
    for rank, check in enumerate(checks, start=CHECKS):
        for kind in check.kinds:
            by_kind[kind].append((rank, check))
    for row in rows(span):
        if isinstance(row, UnreadableEntry):
            noted.note(WALK, [row.found], by_stream=True)
            walk.heads[row.found.tenant, row.found.stream] = (row.found.seq, row.hash)
            continue
        found = walk.step(row)
        if found is not None:
            noted.note(WALK, [found], by_stream=True)
            walk.go_on(row)
        if row.kind in by_kind:
            _show(row, walk, by_kind[row.kind], noted)
    for rank, check in enumerate(checks, start=CHECKS):
        if isinstance(check, StreamCheck):
            noted.note(rank, guarded(check, check.flush), by_stream=True)
    return walk


def _show(
    row: LedgerRow, walk: ChainVerifier, checks: Iterable[tuple[int, row_checks.RowCheck]], noted: Noted
) -> None:
    """What the checks of an entry's kind find at once; they see only a payload that is one of its kind."""
    try:
        payload = (walk.body or canonical.decode(row.body))["payload"]
    except (canonical.CanonicalError, KeyError, TypeError):
        return  # its bytes say nothing, which is a finding already
    if not isinstance(payload, dict):
        return
    entry = Entry(row.tenant, row.stream, row.seq, row.kind, row.at, row.actor, payload)
    try:
        EVENTS[Kind(row.kind)].model_validate_json(canonical.encode(payload), extra="ignore")
    except ValueError:
        detail = f"the payload is not valid for the kind {row.kind}"
        noted.note(WALK, [entry.wrong(BreakKind.UNREADABLE, detail)], by_stream=True)
        return
    for rank, check in checks:
        noted.note(rank, guarded(check, partial(check.see, entry)), by_stream=isinstance(check, StreamCheck))


def guarded(check: object, work: Callable[[], Iterable[ChainBreak]]) -> Iterator[ChainBreak]:
    """What a check finds; that it cannot read rows is a finding."""
    try:
        yield from work()
    except verify.UNREADABLE as error:
        detail = f"{type(check).__name__} cannot read rows ({type(error).__name__})"
        yield ChainBreak("", actors.SYSTEM, 0, BreakKind.UNREADABLE, detail)


def rows(span: Span) -> Iterator[LedgerRow | UnreadableEntry]:
    """Entries as they are stored. SQLite takes a value of any type in any column, so there it is read raw."""
    condition, values = span.where()
    if connection.vendor != "sqlite":
        entries = LedgerEntry.objects.order_by("tenant", "stream", "seq")
        if condition:
            # A comparison of rows, so that the index answers it; the texts are in the parameters.
            entries = entries.extra(where=[condition], params=values)  # noqa: S610
        yield from verify.rows(entries)
        return
    with connection.cursor() as cursor:
        cursor.execute(_SELECT.format(where=f"WHERE {condition}" if condition else ""), values)
        while chunk := cursor.fetchmany(_CHUNK):
            for cells in chunk:
                yield _raw(cells)


def _raw(cells: tuple[Any, ...]) -> LedgerRow | UnreadableEntry:
    tenant, stream, seq, kind, at, actor, body, prev_hash, entry_hash = cells
    named = {"tenant": tenant, "stream": stream, "kind": kind, "actor": actor}
    wrong = [name for name, cell in named.items() if not isinstance(cell, str)]
    stored = {"body": body, "prev_hash": prev_hash, "hash": entry_hash}
    wrong += [name for name, cell in stored.items() if not isinstance(cell, bytes)]
    moment = None
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError:
        wrong.append("at")
    if wrong or moment is None:
        detail = f"the column {wrong[0]} has a value of the wrong type"
        found = ChainBreak(str(tenant), str(stream), seq, BreakKind.UNREADABLE, detail)
        return UnreadableEntry(found, entry_hash if isinstance(entry_hash, bytes) else b"")
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return LedgerRow(tenant, stream, seq, kind, moment, actor, body, prev_hash, entry_hash)


class PayloadCheck:
    """Every commitment has its payload, or an entry that erased it; no payload is there without an entry."""

    kinds = frozenset(
        {
            Kind.PAYLOAD_ERASED,
            Kind.FLOW_ERASED,
            Kind.PAYLOAD_KEY_DESTROYED,
            *(
                kind
                for kind, event in EVENTS.items()
                if any(name.endswith("_commitment") for name in event.model_fields)
            ),
        }
    )
    not_proved: Sequence[NotProved] = (
        NotProved("audit_payload", ("tenant",), "a commitment is unique over all tenants"),
        NotProved(
            "audit_classkey",
            ("master_id", "created_at", "retired_at"),
            "whether a key opens a payload is shown by opening it; entries say when keys were replaced",
        ),
        NotProved("audit_streamhead", ("at",), "number and hash say where a stream ends"),
        NotProved("audit_witnessstate", (), "what a witness holds is asked of the witness"),
    )
    not_verified: Sequence[str] = ()

    def __init__(self) -> None:
        self.count = self.sealed = 0
        self.erased: set[str] = set()
        self.destroyed: dict[str, Entry] = {}
        self._seen = 0
        # The commitments of the stream that passes: an erasure of its flow takes those before it.
        self._stream: tuple[str, str] = ("", "")
        self._of_stream: set[str] = set()
        self._waiting: dict[str, Entry] = {}

    def see(self, entry: Entry) -> list[ChainBreak]:
        if entry.kind == Kind.PAYLOAD_ERASED:
            self.erased.add(entry.payload["commitment"])
        if entry.kind == Kind.PAYLOAD_KEY_DESTROYED:
            self.destroyed[entry.payload["key_id"]] = entry
        if (entry.tenant, entry.stream) != self._stream:
            self._stream, self._of_stream = (entry.tenant, entry.stream), set()
        if entry.kind == Kind.FLOW_ERASED:
            self.erased |= self._of_stream
        for name, value in entry.payload.items():
            if name.endswith("_commitment") and isinstance(value, str):
                self._waiting[value] = entry
                self._of_stream.add(value)
        return self._compare() if len(self._waiting) >= _CHUNK else []

    def flush(self) -> list[ChainBreak]:
        """Compare what is left of the entries that were seen."""
        return self._compare()

    def absorb(self, other: "PayloadCheck") -> None:
        """Go on as if these entries had been seen here."""
        self.erased |= other.erased
        self.destroyed |= other.destroyed
        self._seen += other._seen

    def finish(self) -> Iterator[ChainBreak]:
        yield from self._compare()
        rows = Payload.objects.order_by("pk")
        there = sealed = 0
        with_key = defaultdict[str, list[str]](list)
        for row in rows.iterator(chunk_size=_CHUNK):
            there += 1
            opened = row.open()
            if str(row.key_id) in self.destroyed and row.content is None and row.salt is None:
                with_key[str(row.key_id)].append(row.commitment)
                self.erased.add(row.commitment)
                continue
            found = self._fault(row.commitment, row.salt, opened)
            if found is not None:
                yield ChainBreak(row.tenant, f"payload {row.commitment}", 0, *found)
            elif opened.state is State.SEALED:
                sealed += 1
            elif opened.state is State.HELD:
                self.count += 1
        self.sealed = sealed
        if sealed:
            words = (
                f"{sealed} payloads are sealed, not opened: DIR_PAYLOAD_KEY is not the key that seals them"
            )
            self.not_verified = (words,)
        yield from self._keys(with_key)
        if there > self._seen:
            yield from self._without_entry(rows)

    def _keys(self, erased: Mapping[str, Sequence[str]]) -> Iterator[ChainBreak]:
        """Every destroyed key has its entry, and what was erased with it is what the entry covers."""
        for key in ClassKey.objects.exclude(destroyed_at=None).order_by("pk"):
            if str(key.pk) not in self.destroyed:
                detail = "the key was destroyed without an entry"
                yield ChainBreak(key.tenant, f"payload key {key.pk}", 0, BreakKind.ROW_WITHOUT_ENTRY, detail)
        for key_id, entry in self.destroyed.items():
            if ClassKey.objects.filter(pk=key_id, destroyed_at=None).exists():
                yield entry.wrong(BreakKind.PAYLOAD_MISMATCH, f"the key {key_id} is there again")
            if erased_keys.digest_of(erased.get(key_id, ())) != entry.payload["commitments_digest"]:
                detail = f"other payloads were erased with the key {key_id} than the entry covers"
                yield entry.wrong(BreakKind.PAYLOAD_MISSING, detail)

    def _fault(self, commitment: str, salt: object, opened: Opened) -> tuple[BreakKind, str] | None:
        if opened.state is State.ERASED and salt is None:
            if commitment in self.erased:
                return None
            return BreakKind.PAYLOAD_MISSING, "the payload was erased without an erasure entry"
        if opened.state is State.BROKEN:
            return BreakKind.PAYLOAD_MISMATCH, "the stored payload cannot be opened with its key"
        salt_held, held = cells.bytes_of(salt), cells.bytes_of(opened.body)
        if salt_held is None or (held is None and opened.state is not State.SEALED):
            return BreakKind.UNREADABLE, "the payload has a value of the wrong type"
        if commitment in self.erased:
            return BreakKind.PAYLOAD_MISMATCH, "the payload was erased but is present again"
        if held is not None and chain.commitment(salt_held, held) != commitment:
            return BreakKind.PAYLOAD_MISMATCH, "the stored payload does not match its commitment"
        return None

    def _compare(self) -> list[ChainBreak]:
        waiting, self._waiting = self._waiting, {}
        there = set(Payload.objects.filter(commitment__in=list(waiting)).values_list("commitment", flat=True))
        self._seen += len(there)
        return [
            entry.wrong(BreakKind.PAYLOAD_MISSING, f"no payload is stored for the commitment {commitment}")
            for commitment, entry in waiting.items()
            if commitment not in there
        ]

    def _without_entry(self, rows: QuerySet[Payload]) -> Iterator[ChainBreak]:
        """Only where the counts differ: which payloads does no entry name? Costs another walk."""
        left = dict(rows.values_list("commitment", "tenant"))
        for body in LedgerEntry.objects.values_list("body", flat=True).iterator(chunk_size=_CHUNK):
            try:
                payload = canonical.decode(bytes(body))["payload"]
            except (canonical.CanonicalError, KeyError, TypeError):
                continue
            for value in payload.values():
                left.pop(value if isinstance(value, str) else "", None)
        for commitment, tenant in left.items():
            yield ChainBreak(
                tenant,
                f"payload {commitment}",
                0,
                BreakKind.ROW_WITHOUT_ENTRY,
                "no entry refers to this payload",
            )
