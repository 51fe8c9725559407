"""DecisionRecords against the entries of their flows, for `verify_ledger`: each is folded again."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self
from uuid import UUID

from django.conf import settings

from audit import canonical, cells, chain
from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.models import DecisionRecord, RecordTerm
from audit.records import dsse, emission, evaluators, fold
from audit.records.fold import Rules, Said
from audit.sealing import keys
from audit.sealing.keys import Keyring
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found
from runtime.flows.models import Flow, Verdict
from runtime.flows.queries import judged_rules
from runtime.registry.models import Bundle
from runtime.verification.flow_entries import Entries, entries_of

_COLUMNS = (
    "tenant",
    "record_id",
    "dfid",
    "seq",
    "status",
    "terminal",
    "decision_key",
    "agent_id",
    "approval_mode",
    "trace_id",
    "supersedes_id",
    "at",
    "record_hash",
    "prev_hash",
    "signature",
    "key_id",
)
Row = Mapping[str, Any]
# What it is, its value, and the tenant.
Term = tuple[str, str, str]


class _OtherBytesError(Exception):
    """A document behind a verdict is not what was recorded, so nothing can be folded from it."""


class RecordRowCheck(row_checks.FlowRows):
    """The records of flows, and what they are found by."""

    kinds = frozenset(Kind)

    def __init__(self) -> None:
        super().__init__()
        self._unknown: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._unscored: dict[str, int] = defaultdict(int)

    @property
    def not_verified(self) -> Sequence[str]:
        """Signatures by keys that are not known here, and scores by suites that are not."""
        return [
            *(
                f"{len(entries)} decision records, key {key_id} unknown here"
                for key_id, entries in sorted(self._unknown.items())
            ),
            *(
                f"{count} scorecards, suite {suite} unknown here"
                for suite, count in sorted(self._unscored.items())
            ),
        ]

    def absorb(self, other: Self) -> None:
        """Take over what could not be verified."""
        for key_id, places in other._unknown.items():
            self._unknown[key_id] |= places
        for suite, count in other._unscored.items():
            self._unscored[suite] += count

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found()
        rows = {(row["dfid"], row["seq"]): row for row in _rows(flows)}
        terms = _terms(row["id"] for row in rows.values())
        documents = _Documents(flows)
        ring = keys.keyring(tenant=settings.DIR_TENANT)
        due = dict(Flow.objects.filter(dfid__in=flows).values_list("dfid", "score_due"))
        stored = _Stored(rows, terms, documents, ring)
        for dfid, entries in flows.items():
            _compare_flow(found, dfid, entries, stored)
            _compare_due(found, entries, is_due=due.get(dfid))
        for suite in stored.unknown_suites:
            self._unscored[suite] += 1
        for dfid, seq in rows:
            tenant = flows[dfid][0].tenant
            found.without_entry(tenant, str(dfid), f"the decision record up to entry {seq}")
        for key_id, places in found.unknown_keys.items():
            self._unknown[key_id] |= places
        return found.breaks


class _Stored:
    """What is stored about the records of some flows."""

    def __init__(
        self,
        rows: dict[tuple[UUID, int], Row],
        terms: Mapping[int, set[Term]],
        documents: "_Documents",
        ring: Keyring,
    ) -> None:
        self.rows, self.terms, self.documents, self.ring = rows, terms, documents, ring
        self.unknown_suites: list[str] = []


def _rows(flows: Mapping[UUID, Entries]) -> list[Row]:
    rows = DecisionRecord.objects.filter(dfid__in=flows).order_by("id")
    return list(rows.values("id", "body", *_COLUMNS))


def _terms(records: Iterable[int]) -> Mapping[int, set[Term]]:
    terms: dict[int, set[Term]] = defaultdict(set)
    stored = RecordTerm.objects.filter(record__in=list(records))
    for record, name, value, tenant in stored.values_list("record", "name", "value", "tenant"):
        terms[record].add((name, value, tenant))
    return terms


class _Documents:
    """What verdicts were judged by, of some flows: read in two queries, compared with the entries."""

    def __init__(self, flows: Mapping[UUID, Entries]) -> None:
        said = [entry.payload for entry in entries_of(flows, Kind.VERDICT_GIVEN)]
        wanted = {payload["proposal_id"] for payload in said}
        verdicts = Verdict.objects.filter(proposal__in=wanted).values_list("proposal_id", "input", "body")
        self._verdicts = {str(pk): (given, body) for pk, given, body in verdicts}
        bundles = {payload["policy_bundle_hash"] for payload in said}
        self._bundles = dict(Bundle.objects.filter(digest__in=bundles).values_list("digest", "body"))

    def rules(self, said: Mapping[str, Any]) -> Rules:
        """What a record takes from them. Raises _OtherBytesError."""
        given, answer = self._verdicts.get(said["proposal_id"], (None, None))
        wanted = (
            (given, said["input_digest"]),
            (answer, said["verdict_digest"]),
            (self._bundles.get(said["policy_bundle_hash"]), said["policy_bundle_hash"]),
        )
        for cell, digest in wanted:
            if cells.digest_of(cell) != digest:
                raise _OtherBytesError
        judgement, verdict, rules = (cells.bytes_of(cell) or b"" for cell, _ in wanted)
        return judged_rules.read(judgement=judgement, verdict=verdict, rules=rules)


def _compare_flow(found: Found, dfid: UUID, entries: Entries, stored: _Stored) -> None:
    folded: dict[str, Any] | None = None
    prev_hash = emission.GENESIS
    since: list[Said] = []
    emitted: Entry | None = None
    first = next((entry for entry in entries if entry.kind == Kind.RECORD_EMITTED), None)
    version = str(first.payload["fold_version"]) if first is not None else fold.VERSION
    is_scored = False
    # Where a document is not what was recorded, its own check says so; the records are then compared with
    # their entries alone.
    can_fold = True
    for entry in entries:
        if entry.kind == Kind.RECORD_SCORED:
            is_scored = True
            is_late = any(fold.changes(each.kind, version=version) for each in since)
            _compare_score(found, entry, None if is_late else emitted, folded if can_fold else None, stored)
        if entry.kind != Kind.RECORD_EMITTED:
            since.append(Said(entry.seq, entry.kind, chain.time_text(entry.at), entry.actor, entry.payload))
            continue
        emitted = entry
        can_fold = can_fold and entry.payload["fold_version"] == version in fold.VERSIONS and bool(since)
        if can_fold:
            try:
                folded = fold.fold(
                    dfid=str(dfid),
                    previous=folded,
                    entries=since,
                    rules=stored.documents.rules,
                    version=version,
                )
            except _OtherBytesError:
                can_fold = False
        _compare_record(found, entry, folded if can_fold else None, prev_hash, stored)
        prev_hash, since = entry.payload["record_hash"], []
    # Since its first scorecard, a flow has a record of everything that came after its end.
    left = [
        each
        for each in since
        if fold.is_checkpoint(each.kind, each.payload)
        or (is_scored and fold.changes(each.kind, version=version))
    ]
    if emitted is not None and left:
        found.missing(emitted, f"the decision record after entry {left[-1].seq}")


def _compare_score(
    found: Found, entry: Entry, emitted: Entry | None, folded: dict[str, Any] | None, stored: _Stored
) -> None:
    """A scorecard is about the record that was emitted last, and comes out again.

    `emitted` is its entry, or None where something has changed since what that record says.
    """
    said = entry.payload
    last = {} if emitted is None else emitted.payload
    if last.get("record_hash") != said["record_hash"] or not last.get("terminal"):
        detail = f"the scorecard of {said['record_id']} is not of the terminal record before it"
        found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))
        return
    if folded is None:
        return
    if not said["scores"] and said["suite"] == evaluators.suite_of(folded):
        return  # not known when it was to be scored; it may be since
    if said["suite"] not in evaluators.SUITES:
        stored.unknown_suites.append(said["suite"])
        return
    expected = evaluators.scorecard(evaluators.evaluate(folded).plain())
    if expected != evaluators.scorecard(said):
        detail = f"the scorecard of {said['record_id']} is not what its evaluators give"
        found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))


def _compare_due(found: Found, entries: Entries, *, is_due: object) -> None:
    """The flow waits for a scorecard just where its newest record is of its end and has none."""
    emitted = [entry for entry in entries if entry.kind == Kind.RECORD_EMITTED]
    if not emitted:
        return
    scored = {entry.seq for entry in entries if entry.kind == Kind.RECORD_SCORED}
    last = emitted[-1]
    expected = last.payload["terminal"] and last.seq - 1 not in scored
    found.same(last, "flow.score_due", expected, is_due)


def _compare_record(
    found: Found, entry: Entry, folded: dict[str, Any] | None, prev_hash: str, stored: _Stored
) -> None:
    said = entry.payload
    row = stored.rows.pop((UUID(entry.stream), entry.seq - 1), None)
    if row is None:
        found.missing(entry, f"the decision record {said['record_id']}")
        return
    if folded is not None:
        whole = fold.sealed(folded, prev_hash=prev_hash, key_id=said["key_id"])
        if whole["audit"]["record_hash"] != said["record_hash"]:
            detail = f"the record {said['record_id']} does not follow from the entries before it"
            found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))
            return
    body = cells.bytes_of(row["body"])
    record = _read(body)
    if body is None or record is None or fold.record_hash(record) != said["record_hash"]:
        found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, "record.body does not match the ledger"))
        return
    found.same(entry, "record.audit.prev_hash", prev_hash, record["audit"]["prev_hash"])
    found.same(entry, "record.audit.record_hash", said["record_hash"], record["audit"].get("record_hash"))
    found.same(entry, "record.audit.signed_by", said["key_id"], record["audit"].get("signed_by"))
    signature = bytes.fromhex(said["signature"])
    expected = emission.row_of(entry.tenant, record, body, signature=signature, at=entry.at)
    for name in _COLUMNS:
        found.same(entry, f"record.{name}", _plain(getattr(expected, name)), _plain(row[name]))
    terms = {(*term, entry.tenant) for term in emission.terms_of(record)}
    found.same(entry, "record.terms", sorted(terms), sorted(stored.terms.get(row["id"], set())))
    verified = stored.ring.verify(dsse.statement(body), signature, said["key_id"], at=entry.at)
    if verified is None:
        found.unknown_keys.setdefault(said["key_id"], set()).add((entry.stream, entry.seq))
    elif not verified:
        detail = f"the record is not signed by key {said['key_id']} while that was valid"
        found.breaks.append(entry.wrong(BreakKind.SIGNATURE_WRONG, detail))


def _read(body: bytes | None) -> dict[str, Any] | None:
    """The record that these bytes are; None where they are none."""
    try:
        record = canonical.decode(body or b"")
    except canonical.CanonicalError:
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("audit"), dict)
    return record if is_record and "prev_hash" in record["audit"] else None


def _plain(value: object) -> object:
    held = cells.bytes_of(value)
    return value if held is None else held.hex()
