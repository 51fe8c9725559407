"""The rows of one flow against its entries, in the order in which one change would explain the next.

Rules come first: with other rules a verdict comes out otherwise, too, and the rules are what was changed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from audit import canonical, cells, chain, erased_keys, queries
from audit.chain import ChainBreak
from audit.events import Kind
from audit.models import DecisionRecord, Payload, RecordTerm
from audit.packs import sources
from audit.records import emission, evaluators, fold
from audit.records import queries as records
from audit.records.evaluators import suite_of
from audit.verification import row_checks
from audit.verification.row_checks import Entry
from runtime.contexts.models import Snapshot
from runtime.flows.models import Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.flows.queries import intent_records
from runtime.proposals.queries import replay_values
from runtime.proposals.queries.replay_results import Change
from runtime.registry.models import Bundle

HIDDEN: Final = "hidden: the first of two decisions"
_NO_BYTES: Final = "a value of another type"
_EMPTIED: Final = "emptied, and no entry says that it was erased"
_CHANGES: Mapping[str, Change] = {
    "bundle": Change.POLICY,
    "snapshot": Change.CONTEXT,
    "evidence": Change.EVIDENCE,
    "attempt": Change.TRANSCRIPT,
    "outcome": Change.TRANSCRIPT,
    "stepreceipt": Change.TRANSCRIPT,
}
# Of tables of which only a part is about scores.
_CHANGED_SCORES: Final = frozenset({"decisionrecord.scorecard", "recordterm.scorecard"})
_OF_SCORES: Final = frozenset({RecordTerm.Name.SCORECARD.value, RecordTerm.Name.FAILED_EVALUATOR.value})
# What targets answered, behind commitments of these entries.
_ANSWERS: Final = frozenset(
    {
        Kind.ATTEMPT_FINISHED,
        Kind.ATTEMPT_REPORTED_LATE,
        Kind.STATUS_QUERY_FINISHED,
        Kind.SAGA_ADVANCED,
        Kind.OUTCOME_RECORDED,
        Kind.OUTCOME_NAMED,
    }
)
_MISSING_ROWS: Mapping[str, str] = {
    Kind.ATTEMPT_STARTED: "attempt",
    Kind.ATTEMPT_FINISHED: "attempt",
    Kind.ATTEMPT_SETTLED: "attempt",
    Kind.OUTCOME_RECORDED: "outcome",
    Kind.SAGA_ADVANCED: "stepreceipt",
}
_UNLIKE: Final = re.compile(r"([a-z]+\.\w+|outcome) is (.*), but the ledger recorded (.*)", re.DOTALL)
_UNLIKE_HELD: Final = re.compile(r"what is (held) and used of .+ is (.*), but the ledger recorded (.*)")
_UNLIKE_BYTES: Final = re.compile(r"([a-z]+\.\w+) does not match the ledger")
_ANOTHER: Final = "other bytes than recorded"
_COMPARED: Final = frozenset(
    {"bundle.body", "snapshot.body", "proposal.body", "verdict.input", "verdict.body", "intent.requests"}
)


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """A cell that is not what its entry recorded.

    Where `recorded` is the digest of a document, `body` is what the cell holds, and `salt` came before it.
    `place` is where inside the document the two values stand, where that is known already.
    """

    change: Change
    seq: int
    row: str
    row_id: str
    recorded: Any
    found: Any
    body: bytes | None = None
    salt: bytes = b""
    proposal_id: str | None = None
    place: tuple[str | int, ...] = ()


@dataclass(kw_only=True)
class RecordedHistory:
    """One flow with its entries, whose chain is whole. `not_verified` fills while its rows are compared."""

    tenant: str
    dfid: UUID
    entries: Sequence[Entry]
    not_verified: list[str] = field(default_factory=list)

    def of_kind(self, *kinds: Kind) -> list[Entry]:
        """The entries of these kinds, oldest first."""
        return [entry for entry in self.entries if entry.kind in kinds]

    @cached_property
    def payloads(self) -> Mapping[str, tuple[object, object]]:
        """Salt and body by commitment."""
        named = {value for entry in self.entries for _, value in sources.list_commitments(entry.payload)}
        rows = Payload.objects.filter(tenant=self.tenant, commitment__in=named)
        return {row.commitment: row.held for row in rows}

    @cached_property
    def erased_up_to(self) -> int:
        """The number of the entry that erased the words of the whole flow; 0 without one."""
        return max((entry.seq for entry in self.of_kind(Kind.FLOW_ERASED)), default=0)

    @cached_property
    def erased(self) -> tuple[tuple[int, str], ...]:
        """The fields whose words were erased, as an entry says, each with the number of its entry."""
        gone = {name for name, held in self.payloads.items() if held == (None, None)}
        if gone:
            told = queries.list_payloads_of_kind(tenant=self.tenant, kind=Kind.PAYLOAD_ERASED)
            with_key = erased_keys.find_covered(tenant=self.tenant, commitments=gone, is_compared=False)
            gone = gone & {payload["commitment"] for _, payload in told} | with_key
        return tuple(
            (entry.seq, name)
            for entry in self.entries
            for name, value in sources.list_commitments(entry.payload)
            if value in gone or self._is_erased(entry, value)
        )

    def _is_erased(self, entry: Entry, commitment: str) -> bool:
        """Whether the erasure of the flow took it; one that is present again was not taken."""
        return entry.seq < self.erased_up_to and self.payloads.get(commitment) == (None, None)

    @cached_property
    def objects(self) -> sources.Objects:
        """The bytes that all apps store for the digests in the entries, and why there are none of others."""
        wanted = {
            digest for entry in self.entries for digest in sources.list_named(entry.kind, entry.payload)
        }
        return sources.collect(tenant=self.tenant, dfid=self.dfid, wanted=wanted)

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdicts by proposal."""
        return {str(row.pk): row for row in Verdict.objects.filter(proposal__flow=self.dfid)}

    @cached_property
    def bundles(self) -> Mapping[str, object]:
        """The cells of the rules that the entries name, by digest."""
        named = {entry.payload["policy_bundle_hash"] for entry in self.of_kind(Kind.VERDICT_GIVEN)}
        return dict(Bundle.objects.filter(pk__in=named).values_list("pk", "body"))

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """The outcomes by intent."""
        return {str(row.pk): row for row in Outcome.objects.filter(intent__flow=self.dfid)}

    @cached_property
    def steps(self) -> Mapping[tuple[str, str, str], StepReceipt]:
        """The receipts of steps by intent, step and direction."""
        rows = StepReceipt.objects.filter(intent__flow=self.dfid)
        return {(str(row.intent_id), row.step, row.direction): row for row in rows}

    def may_be_gone(self, cell: object) -> bool:
        """Whether a cell may be empty because words of this flow were erased."""
        return bool(self.erased) and cell in (None, b"", "")


def compare(history: RecordedHistory) -> Iterator[Unlike]:
    """Every cell of the flow that is not as recorded, causes first."""
    yield from _policies(history)
    yield from _contexts(history)
    yield from _evidence(history)
    yield from _answers(history)
    yield from _scorecards(history)
    yield from _scored_again(history)
    yield from _inputs(history)
    yield from _signed(history)
    yield from _payloads(history, [entry for entry in history.entries if entry.kind not in _ANSWERS])
    yield from _further(history)


def _policies(history: RecordedHistory) -> Iterator[Unlike]:
    for entry in history.of_kind(Kind.VERDICT_GIVEN):
        digest, proposal = entry.payload["policy_bundle_hash"], entry.payload["proposal_id"]
        held = [history.bundles[digest]] if digest in history.bundles else []
        yield from _bytes(history, entry, "bundle.body", digest, digest, held)
        row = history.verdicts.get(proposal)
        if row is not None and row.bundle_id != digest:
            yield _of(entry, "verdict.bundle", proposal, digest, row.bundle_id, Change.POLICY)


def _contexts(history: RecordedHistory) -> Iterator[Unlike]:
    entries = history.of_kind(Kind.CONTEXT_COMPILED)
    rows = dict(Snapshot.objects.filter(flow=history.dfid).values_list("context_ref", "body"))
    for entry in entries:
        ref = entry.payload["context_ref"]
        yield from _bytes(history, entry, "snapshot.body", ref, ref, [rows[ref]] if ref in rows else [])


def _evidence(history: RecordedHistory) -> Iterator[Unlike]:
    for entry in history.of_kind(Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED):
        name = f"{entry.payload['escalation_id']} revision {entry.payload['revision']}"
        yield from _of_others(history, entry, "evidence.body", name, entry.payload["evidence_hash"])


def _answers(history: RecordedHistory) -> Iterator[Unlike]:
    """What targets answered: as the ledger keeps it beside the chain, and as the rows repeat it."""
    yield from _payloads(history, history.of_kind(*_ANSWERS))
    for entry in history.of_kind(Kind.OUTCOME_RECORDED):
        intent = entry.payload["intent_id"]
        row = history.outcomes.get(intent)
        if row is None:
            recorded = entry.payload.get("outcome_digest") or entry.payload["status"]
            yield _of(entry, "outcome", intent, recorded, None)
            continue
        yield from _committed(history, entry, "outcome.receipt", intent, "receipt_commitment", row.receipt)
        digest = entry.payload.get("outcome_digest")
        if digest is not None:
            held = [] if entry.seq < history.erased_up_to else [intent_records.outcome_bytes(row)]
            if held:
                yield from _bytes(history, entry, "outcome", intent, digest, held)
    for entry in history.of_kind(Kind.SAGA_ADVANCED):
        key = (entry.payload["intent_id"], entry.payload["step"], entry.payload["direction"])
        step = history.steps.get(key)
        name = " ".join(key)
        if step is None:
            yield _of(entry, "stepreceipt", name, entry.payload.get("receipt_commitment"), None)
        else:
            commitment = "receipt_commitment"
            yield from _committed(history, entry, "stepreceipt.receipt", name, commitment, step.receipt)


def _scorecards(history: RecordedHistory) -> Iterator[Unlike]:
    """The scorecard in the record that a score has led to, and what that is found by."""
    rows = {seq: (pk, body) for seq, pk, body in _records(history)}
    terms = RecordTerm.objects.filter(record__in=[pk for pk, _ in rows.values()], name__in=_OF_SCORES)
    stored: dict[int, set[tuple[str, str]]] = {pk: set() for pk, _ in rows.values()}
    for pk, name, value in terms.values_list("record", "name", "value"):
        stored[pk].add((name, value))
    for entry in history.of_kind(Kind.RECORD_SCORED):
        if entry.seq not in rows:
            continue  # a row that is gone is named with all others
        pk, cell = rows[entry.seq]
        record = records.document_of(cell)
        if record is None:
            continue  # and so is one that is no record
        recorded = evaluators.scorecard(entry.payload)
        yield from _of_scorecard(entry, recorded, record.get("scorecard"))
        wanted = {
            term for term in emission.terms_of({**record, "scorecard": recorded}) if term[0] in _OF_SCORES
        }
        if stored[pk] != wanted:
            told, found = (sorted(": ".join(term) for term in terms) for terms in (wanted, stored[pk]))
            yield _of(entry, "recordterm.scorecard", record["record_id"], told, found)


def _scored_again(history: RecordedHistory) -> Iterator[Unlike]:
    """Scorecards that the evaluators of today give otherwise of the same record."""
    rows = {seq: body for seq, _, body in _records(history)}
    for entry in history.of_kind(Kind.RECORD_SCORED):
        # The record scored is emitted by the entry before, and folded from those before that one.
        record = records.document_of(rows.get(entry.seq - 2))
        if record is None or fold.record_hash(record) != entry.payload["record_hash"]:
            continue  # a record that was changed is named with all others
        if not entry.payload["scores"] and entry.payload["suite"] == suite_of(record):
            continue  # not known when it was to be scored; it may be since
        if entry.payload["suite"] not in evaluators.SUITES:
            history.not_verified.append(f"the scorecard of entry {entry.seq}: its suite is unknown here")
            continue
        found = evaluators.scorecard(evaluators.evaluate(record).plain())
        yield from _of_scorecard(entry, evaluators.scorecard(entry.payload), found)


def _records(history: RecordedHistory) -> Iterable[tuple[int, int, object]]:
    """Of each record of the flow the last entry that it is folded from, its key and its bytes."""
    rows = DecisionRecord.objects.filter(tenant=history.tenant, dfid=history.dfid)
    return rows.values_list("seq", "pk", "body")


def _of_scorecard(entry: Entry, recorded: Any, found: Any) -> Iterator[Unlike]:
    unlike = replay_values.first_difference(recorded, found)
    if unlike is not None:
        place, before, after = unlike
        row = _of(entry, "decisionrecord.scorecard", entry.payload["record_id"], before, after)
        yield replace(row, place=place)


def _inputs(history: RecordedHistory) -> Iterator[Unlike]:
    """What was proposed, what the gate was given, what it said, and what is sent after that."""
    for trigger in Flow.objects.filter(pk=history.dfid).values_list("trigger", flat=True):
        for entry in history.of_kind(Kind.FLOW_OPENED):
            yield from _committed(
                history, entry, "flow.trigger", str(history.dfid), "trigger_commitment", trigger
            )
    columns = Proposal.objects.filter(flow=history.dfid).values_list("pk", "body", "explain")
    proposals = {str(pk): (body, explain) for pk, body, explain in columns}
    for entry in history.of_kind(Kind.PROPOSAL_SUBMITTED):
        name = entry.payload["proposal_id"]
        held = [proposals[name][0]] if name in proposals else []
        yield from _bytes(history, entry, "proposal.body", name, entry.payload["proposal_digest"], held)
        if held and entry.payload.get("explain_commitment"):
            explain = canonical.encode(proposals[name][1])
            yield from _committed(history, entry, "proposal.explain", name, "explain_commitment", explain)
    for entry in history.of_kind(Kind.VERDICT_GIVEN):
        name = entry.payload["proposal_id"]
        row = history.verdicts.get(name)
        for column, digest in (("input", "input_digest"), ("body", "verdict_digest")):
            held = [] if row is None else [getattr(row, column)]
            yield from _bytes(history, entry, f"verdict.{column}", name, entry.payload[digest], held)
    intents = Intent.objects.filter(flow=history.dfid).values_list("pk", "requests")
    requests = {str(pk): body for pk, body in intents}
    for entry in history.of_kind(Kind.INTENT_CREATED):
        name = entry.payload["intent_id"]
        held = [requests[name]] if name in requests else []
        yield from _bytes(history, entry, "intent.requests", name, entry.payload["request_digest"], held)


def _signed(history: RecordedHistory) -> Iterator[Unlike]:
    rows = {
        Kind.ESCALATION_DECIDED: "decision.statement",
        Kind.ESCALATION_FIRST_DECIDED: "decision.statement",
        Kind.INFORMATION_REQUESTED: "question.statement",
        Kind.EFFECT_STATED: "effectstatement.statement",
    }
    for entry in history.of_kind(*rows):
        row, name = rows[Kind(entry.kind)], entry.payload["escalation_id"]
        yield from _of_others(history, entry, row, name, entry.payload["statement_digest"])


def _payloads(history: RecordedHistory, entries: Iterable[Entry]) -> Iterator[Unlike]:
    erased = {(seq, name) for seq, name in history.erased}
    for entry in entries:
        change = Change.TRANSCRIPT if entry.kind in _ANSWERS else Change.TAMPERED
        for name, commitment in sources.list_commitments(entry.payload):
            if (entry.seq, name) in erased:
                continue
            salt, body = (cells.bytes_of(cell) for cell in history.payloads.get(commitment, (None, None)))
            if salt is None or body is None:
                found = _EMPTIED if commitment in history.payloads else None
                yield _of(entry, "payload.body", commitment, commitment, found, change)
            elif (committed := chain.commitment(salt, body)) != commitment:
                unlike = _of(entry, "payload.body", commitment, commitment, committed, change)
                yield _with(unlike, body, salt)


def _further(history: RecordedHistory) -> Iterator[Unlike]:
    """All other columns, and what follows from entries: states, attempts, deadlines, signatures."""
    for check in row_checks.all_checks():
        if not isinstance(check, row_checks.FlowRows):
            continue
        seen = {history.dfid: [entry for entry in history.entries if entry.kind in check.kinds]}
        found = row_checks.safely(check.compare, seen, {history.dfid: history.tenant})
        unlike = (_of_finding(history, item) for item in found)
        # Compared above, where a cell may be empty because its words were erased.
        yield from (each for each in unlike if each.found != _ANOTHER or each.row not in _COMPARED)
        history.not_verified += check.not_verified


def _of_finding(history: RecordedHistory, item: ChainBreak) -> Unlike:
    """A finding of `verify_ledger`, whose words name row and values."""
    entry = next((each for each in history.entries if each.seq == item.seq), None)
    kind = "" if entry is None else entry.kind
    row: str = ""
    recorded: str | None = None
    found: str | None = item.detail
    if values := _UNLIKE.fullmatch(item.detail) or _UNLIKE_HELD.fullmatch(item.detail):
        row, found, recorded = values.groups()
        row = "reservation.amount" if row == "held" else row
        if kind == Kind.ESCALATION_FIRST_DECIDED:
            recorded = found = HIDDEN
    elif unlike := _UNLIKE_BYTES.fullmatch(item.detail):
        row, recorded, found = unlike[1], "the recorded bytes", _ANOTHER
    elif entry is not None and item.fault == chain.BreakKind.ROW_MISSING:
        row, recorded, found = _MISSING_ROWS.get(kind, ""), item.detail.removesuffix(" is missing"), None
    change = _CHANGES.get(row.partition(".")[0], Change.TAMPERED)
    return Unlike(
        change=change,
        seq=item.seq,
        row=row,
        row_id="",
        recorded=recorded,
        found=found,
        proposal_id=None if entry is None else entry.payload.get("proposal_id"),
    )


def _bytes(
    history: RecordedHistory, entry: Entry, row: str, row_id: str, digest: str, held: Sequence[object]
) -> Iterator[Unlike]:
    """A cell against the digest in its entry; `held` is the cell, or nothing where the row is gone."""
    if not held:
        yield _of(entry, row, row_id, digest, None)
    elif not history.may_be_gone(held[0]):
        body = cells.bytes_of(held[0])
        if body is None:
            yield _of(entry, row, row_id, digest, _NO_BYTES)
        elif (found := canonical.digest(body)) != digest:
            yield _with(_of(entry, row, row_id, digest, found), body)


def _committed(
    history: RecordedHistory, entry: Entry, row: str, row_id: str, name: str, cell: object
) -> Iterator[Unlike]:
    """A cell against a commitment, by the salt that is kept with it; without a salt it was erased."""
    commitment, body = entry.payload.get(name), cells.bytes_of(cell)
    salt = cells.bytes_of(history.payloads.get(commitment or "", (None, None))[0])
    if not commitment:
        if cell is not None:
            yield _of(entry, row, row_id, None, _NO_BYTES if body is None else canonical.digest(body))
    elif salt is not None and body is None:
        yield _of(entry, row, row_id, commitment, None if cell is None else _NO_BYTES)
    elif salt is not None and body is not None and chain.commitment(salt, body) != commitment:
        yield _with(_of(entry, row, row_id, commitment, chain.commitment(salt, body)), body, salt)


def _of_others(
    history: RecordedHistory, entry: Entry, row: str, row_id: str, digest: str
) -> Iterator[Unlike]:
    """Bytes in the rows of another app: it gives those that have the digest, and no others."""
    why = history.objects.absent.get(digest)
    if why == sources.GONE:
        yield _of(entry, row, row_id, digest, None)
    elif why in (sources.DIFFERENT, sources.EMPTIED, sources.NOT_READABLE):
        yield _of(entry, row, row_id, digest, why if why == sources.NOT_READABLE else _ANOTHER)


def _of(
    entry: Entry, row: str, row_id: str, recorded: Any, found: Any, change: Change | None = None
) -> Unlike:
    return Unlike(
        change=change or _change_of(row),
        seq=entry.seq,
        row=row,
        row_id=row_id,
        recorded=recorded,
        found=found,
        proposal_id=entry.payload.get("proposal_id"),
    )


def _change_of(row: str) -> Change:
    if row in _CHANGED_SCORES:
        return Change.SCORECARD
    return _CHANGES.get(row.partition(".")[0], Change.TAMPERED)


def _with(unlike: Unlike, body: bytes, salt: bytes = b"") -> Unlike:
    return Unlike(**{**vars(unlike), "body": body, "salt": salt})
