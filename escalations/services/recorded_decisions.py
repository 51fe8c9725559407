"""Decisions as the ledger confirms them: the signed statement, the evidence that was signed, and what ran.

For lists, so the entries and rows of many decisions are read together. What came of an intent is taken from
the entries alone; `recorded_flow` compares the rows of one intent with them.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from audit import canonical, cells, queries
from audit.events import Kind
from audit.models import LedgerEntry
from escalations import decision_search, evidence_contracts
from escalations.contracts import DecisionState
from escalations.decision_search import Cursor, DecisionFilter
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Decision, Evidence
from escalations.services import comparing
from runtime.contracts.verdict import Segment
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.flows.queries import flow_summaries
from runtime.flows.queries.flow_summaries import FlowCourse
from runtime.flows.queries.intent_records import IntentRecord

BLOCK = 200
_REVISIONS = (Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED)
_DECIDED = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED)
_KINDS = flow_summaries.KINDS | {*_REVISIONS, *_DECIDED, Kind.ESCALATION_REOPENED, Kind.FLOW_ERASED}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDecision:
    """One decision. What does not match the ledger is named in `mismatches`, and then the rest is empty.

    `evidence` is the revision that was signed; `effect` what a person's own proposal does, where it has other
    parameters than the agent's. `opened_at` is when the escalation was. A first of two decisions runs nothing
    by itself. `is_erased`: its words are gone, so that nothing is compared, and the rest is empty as well.
    """

    decision: Decision
    mismatches: Sequence[Mismatch] = ()
    statement: Mapping[str, Any] = field(default_factory=dict)
    evidence: AnyEvidence | None = None
    opened_at: datetime | None = None
    effect: Sequence[Segment] = ()
    intent_id: str = ""
    intent: IntentRecord | None = None
    is_taken_back: bool = False
    is_first_of_two: bool = False
    is_erased: bool = False

    @property
    def crossed(self) -> tuple[str, ...]:
        """The reason code, and the codes and subjects of the findings that were shown as exceeded."""
        if self.evidence is None:
            return ()
        found = (*self.evidence.failing, *self.evidence.referred)
        names = (self.evidence.reason, *(name for item in found for name in (item.code, item.subject)))
        return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Decisions that match, newest first; `following` is where the search goes on, None at its end."""

    records: Sequence[RecordedDecision]
    following: Cursor | None
    examined: int


def search(
    *, tenant: str, wanted: DecisionFilter, before: Cursor | None, size: int, most_examined: int
) -> Found:
    """Up to `size` decisions; a search by rule ends after so many decisions, to be continued from there."""
    kept: list[RecordedDecision] = []
    examined, at = 0, before
    while examined < most_examined:
        block = min(BLOCK, most_examined - examined, size + 1 if not wanted.rule else BLOCK)
        rows = decision_search.list_decisions(tenant=tenant, wanted=wanted, before=at, size=block)
        for record in _matching(check(tenant=tenant, decisions=rows), wanted.rule):
            if len(kept) == size:
                following = Cursor.of(kept[-1].decision)
                return Found(records=kept, following=following, examined=examined + len(rows))
            kept.append(record)
        examined += len(rows)
        if len(rows) < block:
            return Found(records=kept, following=None, examined=examined)
        at = Cursor.of(rows[-1])
    return Found(records=kept, following=at, examined=examined)


def check(*, tenant: str, decisions: Sequence[Decision]) -> list[RecordedDecision]:
    """Compare decisions and the evidence they signed with the entries of their flows, in a few queries."""
    entries = queries.list_dated_by_stream(
        tenant=tenant, streams={str(row.escalation.flow_id) for row in decisions}, kinds=_KINDS
    )
    recorded = {stream: _Recorded.of(found) for stream, found in entries.items()}
    evidence = {
        (row.escalation_id, row.revision): row
        for row in Evidence.objects.filter(
            escalation__in={row.escalation_id for row in decisions},
            revision__in={row.revision for row in decisions},
        )
    }
    records = [
        _check(row, recorded.get(str(row.escalation.flow_id), _Recorded()), evidence) for row in decisions
    ]
    return _with_effects(records, recorded)


def find_entry(record: RecordedDecision) -> LedgerEntry | None:
    """The entry of the flow that records the decision; None where none does."""
    row = record.decision
    digest = cells.digest_of(row.statement)
    entries = LedgerEntry.objects.filter(
        tenant=row.escalation.tenant,
        stream=str(row.escalation.flow_id),
        kind__in=_DECIDED,
    )
    found = (entry for entry in entries.order_by("seq") if entry.payload["statement_digest"] == digest)
    return next(found, None)


def _matching(records: Sequence[RecordedDecision], rule: str) -> Iterator[RecordedDecision]:
    wanted = rule.casefold()
    for record in records:
        # Of one that does not match the ledger nobody can say what was exceeded: it is not passed over.
        if (
            not rule
            or record.mismatches
            or record.is_erased
            or wanted in {name.casefold() for name in record.crossed}
        ):
            yield record


@dataclass(kw_only=True, slots=True)
class _Recorded:
    """What the entries of one flow record of its escalations, and its course."""

    opened: dict[str, datetime] = field(default_factory=dict)
    evidence: dict[tuple[str, int], str] = field(default_factory=dict)
    decided: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    firsts: set[tuple[str, str]] = field(default_factory=set)
    taken_back: set[tuple[str, int]] = field(default_factory=set)
    course: FlowCourse = field(default_factory=FlowCourse)
    is_erased: bool = False

    @classmethod
    def of(cls, entries: Sequence[tuple[Kind, datetime, Mapping[str, Any]]]) -> "_Recorded":
        made = cls()
        for kind, at, payload in entries:
            if kind in _REVISIONS:
                made.opened.setdefault(payload["escalation_id"], at)
                revision = payload["escalation_id"], payload["revision"]
                made.evidence.setdefault(revision, payload["evidence_hash"])
            elif kind in _DECIDED:
                about = payload["escalation_id"], payload["statement_digest"]
                made.decided.setdefault(about, payload)
                if kind is Kind.ESCALATION_FIRST_DECIDED:
                    made.firsts.add(about)
            elif kind is Kind.ESCALATION_REOPENED:
                made.taken_back.add((payload["escalation_id"], payload["sequence"]))
            elif kind is Kind.FLOW_ERASED:
                made.is_erased = True
            else:
                made.course.follow(kind, payload)
        return made


def _check(
    row: Decision, recorded: _Recorded, evidence: Mapping[tuple[Any, int], Evidence]
) -> RecordedDecision:
    if recorded.is_erased and not cells.bytes_of(row.statement):
        return RecordedDecision(decision=row, is_erased=True)
    about, digest = str(row.escalation_id), cells.digest_of(row.statement)
    payload = recorded.decided.get((about, digest), {})
    wrong = comparing.compare_signed(payload, row)
    is_taken_back = (about, payload.get("sequence", 1)) in recorded.taken_back
    if not wrong and is_taken_back is not (row.state == DecisionState.TAKEN_BACK):
        wrong = [mismatches.of_values("decision.state", about, str(is_taken_back), row.state)]
    if wrong:
        return RecordedDecision(decision=row, mismatches=wrong)
    statement = canonical.decode(bytes(row.statement))
    if not decision_search.is_of_time(row, statement["decided_at"]):
        moved = mismatches.of_values(
            "decision.decided_at", about, statement["decided_at"], row.decided_at.isoformat()
        )
        return RecordedDecision(decision=row, mismatches=[moved])
    shown = evidence.get((row.escalation_id, row.revision))
    recorded_hash = recorded.evidence.get((about, row.revision), mismatches.NOT_RECORDED)
    where = f"revision {row.revision}"
    changed = mismatches.compare("evidence.body", where, recorded_hash, None if shown is None else shown.body)
    if changed is not None or shown is None:
        return RecordedDecision(decision=row, mismatches=[] if changed is None else [changed])
    read = evidence_contracts.read_evidence(bytes(shown.body))
    proposal_id = statement.get("proposal_id")
    intent_id = recorded.course.intent_of.get(proposal_id, "") if proposal_id else read.intent_id or ""
    return RecordedDecision(
        decision=row,
        statement=statement,
        evidence=read,
        opened_at=recorded.opened.get(about),
        intent_id=intent_id,
        intent=recorded.course.intents.get(intent_id),
        is_taken_back=is_taken_back,
        is_first_of_two=(about, digest) in recorded.firsts,
    )


def _with_effects(
    records: Sequence[RecordedDecision], recorded: Mapping[str, _Recorded]
) -> list[RecordedDecision]:
    """Add the effects of the people's own proposals that have other parameters."""
    verdicts = {
        given: verdict
        for record in records
        if record.statement.get("params") is not None and (given := record.statement.get("proposal_id"))
        if (verdict := recorded[str(record.decision.escalation.flow_id)].course.verdicts.get(given))
    }
    effects = flow_summaries.list_effects(verdicts) if verdicts else {}
    return [
        dataclasses.replace(record, effect=effects.get(record.statement.get("proposal_id") or "", ()))
        for record in records
    ]
