"""The whole check of `verify_ledger`: chains, heads, triggers, payloads, and every digest against its row.

Findings are collected, not thrown: the first one is named, and others are listed up to a bound. Nothing in a
table may end the walk: a cell of another type is a finding with its stream and its number.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from audit import actors, canonical, cells, chain
from audit.chain import BreakKind, ChainBreak, ChainVerifier, LedgerRow
from audit.events import EVENTS, Kind
from audit.models import LedgerEntry, Payload
from audit.sealing.notes import Signed
from audit.verification import row_checks, triggers, verify
from audit.verification.row_checks import Entry, NotProved
from audit.verification.tree_check import TreeCheck

MOST_FINDINGS = 100
_CHUNK = 2000
_SELECT = """
SELECT tenant, stream, CAST(seq AS INTEGER), kind, CAST(at AS TEXT), actor, body, prev_hash, hash
FROM audit_ledgerentry ORDER BY tenant, stream, seq
"""


@dataclass(slots=True)
class VerificationResult:
    """What was looked at, what was found (the first `MOST_FINDINGS`), and what no entry can show.

    `not_verified` is what there is but could not be checked, as a signature by a key that is not held here.
    """

    entries: int = 0
    streams: int = 0
    heads: int = 0
    payloads: int = 0
    erased: int = 0
    leaves: int = 0
    checkpoints: int = 0
    findings: list[ChainBreak] = field(default_factory=list)
    more: int = 0
    not_proved: tuple[str, ...] = ()
    not_verified: tuple[str, ...] = ()

    def note(self, found: Iterable[ChainBreak]) -> None:
        """Keep findings within the bound, and count the rest."""
        for item in found:
            if len(self.findings) < MOST_FINDINGS:
                self.findings.append(item)
            else:
                self.more += 1


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry with a cell of another type; its hash, where that can be read, lets the walk go on."""

    found: ChainBreak
    hash: bytes


def verify_all(*, given: Signed | None = None) -> VerificationResult:
    """Check everything that this database holds of the ledger, beside a running server. Writes nothing.

    `given` is a checkpoint that was kept elsewhere: this ledger must begin with what it was signed over.
    """
    with verify.snapshot():
        return _verify_all(given)


def all_checks() -> list[row_checks.RowCheck]:
    """A fresh check of the payloads, and of each app's rows."""
    return [_Payloads(), *row_checks.all_checks()]


def _verify_all(given: Signed | None) -> VerificationResult:
    result, walk, checks = VerificationResult(), ChainVerifier(), all_checks()
    by_kind: dict[str, list[row_checks.RowCheck]] = defaultdict(list)
    for check in checks:
        for kind in check.kinds:
            by_kind[kind].append(check)
    for row in _rows():
        if isinstance(row, UnreadableEntry):
            result.note([row.found])
            walk.heads[row.found.tenant, row.found.stream] = (row.found.seq, row.hash)
            continue
        found = walk.step(row)
        if found is not None:
            result.note([found])
            walk.go_on(row)
        if row.kind in by_kind:
            result.note(_seen(row, walk, by_kind[row.kind]))
    heads = verify.check_all_heads(walk)
    result.note(heads.breaks)
    tree = TreeCheck(settings.DIR_TENANT, given)
    result.note(_guarded(tree, tree.run))
    for check in checks:
        result.note(_guarded(check, check.finish))
    # What names an entry says most about what was changed, so it comes first; then what names a stream.
    result.findings.sort(key=lambda found: (not found.seq, not found.tenant))
    # Last, since they name no entry; and past the bound, since they show how entries could be changed.
    result.findings += [
        ChainBreak(
            "",
            actors.SYSTEM,
            0,
            BreakKind.TRIGGER_MISSING,
            f"the trigger {name} of the ledger is missing or changed",
        )
        for name in triggers.missing()
    ]
    result.entries, result.streams, result.heads = walk.entries, len(walk.heads), heads.count
    for check in checks:
        if isinstance(check, _Payloads):
            result.payloads, result.erased = check.count, len(check.erased)
    result.leaves, result.checkpoints = tree.leaves, tree.checkpoints
    result.not_verified = (*tree.not_verified, *(words for check in checks for words in check.not_verified))
    result.not_proved = tuple(str(item) for check in checks for item in check.not_proved)
    return result


def _seen(row: LedgerRow, walk: ChainVerifier, checks: Iterable[row_checks.RowCheck]) -> Iterator[ChainBreak]:
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
        yield entry.wrong(BreakKind.UNREADABLE, f"the payload is not valid for the kind {row.kind}")
        return
    for check in checks:
        yield from _guarded(check, partial(check.see, entry))


def _guarded(check: object, work: Callable[[], Iterable[ChainBreak]]) -> Iterator[ChainBreak]:
    try:
        yield from work()
    except verify.UNREADABLE as error:
        detail = f"{type(check).__name__} cannot read rows ({type(error).__name__})"
        yield ChainBreak("", actors.SYSTEM, 0, BreakKind.UNREADABLE, detail)


def _rows() -> Iterator[LedgerRow | UnreadableEntry]:
    """Entries as they are stored. SQLite takes a value of any type in any column, so there it is read raw."""
    if connection.vendor != "sqlite":
        yield from verify.rows(LedgerEntry.objects.order_by("tenant", "stream", "seq"))
        return
    with connection.cursor() as cursor:
        cursor.execute(_SELECT)
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


class _Payloads:
    """Every commitment has its payload, or an entry that erased it; no payload is there without an entry."""

    kinds = frozenset(
        {
            Kind.PAYLOAD_ERASED,
            Kind.FLOW_ERASED,
            *(
                kind
                for kind, event in EVENTS.items()
                if any(name.endswith("_commitment") for name in event.model_fields)
            ),
        }
    )
    not_proved: Sequence[NotProved] = (
        NotProved("audit_payload", ("tenant",), "a commitment is unique over all tenants"),
        NotProved("audit_streamhead", ("at",), "number and hash say where a stream ends"),
        NotProved("audit_witnessstate", (), "what a witness holds is asked of the witness"),
    )
    not_verified: Sequence[str] = ()

    def __init__(self) -> None:
        self.count = 0
        self.erased: set[str] = set()
        self._seen = 0
        # The commitments of the stream that passes: an erasure of its flow takes those before it.
        self._stream: tuple[str, str] = ("", "")
        self._of_stream: set[str] = set()
        self._waiting: dict[str, Entry] = {}

    def see(self, entry: Entry) -> list[ChainBreak]:
        if entry.kind == Kind.PAYLOAD_ERASED:
            self.erased.add(entry.payload["commitment"])
        if (entry.tenant, entry.stream) != self._stream:
            self._stream, self._of_stream = (entry.tenant, entry.stream), set()
        if entry.kind == Kind.FLOW_ERASED:
            self.erased |= self._of_stream
        for name, value in entry.payload.items():
            if name.endswith("_commitment") and isinstance(value, str):
                self._waiting[value] = entry
                self._of_stream.add(value)
        return self._compare() if len(self._waiting) >= _CHUNK else []

    def finish(self) -> Iterator[ChainBreak]:
        yield from self._compare()
        rows = Payload.objects.order_by("pk")
        columns = rows.values_list("tenant", "commitment", "salt", "body")
        there = 0
        for tenant, commitment, salt, body in columns.iterator(chunk_size=_CHUNK):
            there += 1
            found = self._fault(commitment, salt, body)
            if found is not None:
                yield ChainBreak(tenant, f"payload {commitment}", 0, *found)
            elif body is not None:
                self.count += 1
        if there > self._seen:
            yield from self._without_entry(rows)

    def _fault(self, commitment: str, salt: object, body: object) -> tuple[BreakKind, str] | None:
        if body is None and salt is None:
            if commitment in self.erased:
                return None
            return BreakKind.PAYLOAD_MISSING, "the payload was erased without an erasure entry"
        salt_held, held = cells.bytes_of(salt), cells.bytes_of(body)
        if salt_held is None or held is None:
            return BreakKind.UNREADABLE, "the payload has a value of the wrong type"
        if commitment in self.erased:
            return BreakKind.PAYLOAD_MISMATCH, "the payload was erased but is present again"
        if chain.commitment(salt_held, held) != commitment:
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
