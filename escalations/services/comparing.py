"""Whether the rows that a person decides on are what the ledger recorded: nothing else is shown as evidence.

Digests come from the entries of the flow, not from a column beside the bytes (`recorded_flow`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet

from audit import actors, canonical, cells, queries, signing, statements
from audit.chain import time_text
from audit.events import Kind
from audit.sealing import keys
from escalations import evidence_contracts, recorded_deadlines
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Decision, Escalation, Evidence
from escalations.recorded_deadlines import Deadline
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Proposal
from runtime.flows.queries import intent_records, recorded_flow
from runtime.flows.queries.intent_records import IntentRecord

_REVISIONS = frozenset({Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED})
_KINDS = (
    intent_records.KINDS
    | recorded_deadlines.KINDS
    | _REVISIONS
    | {
        Kind.ESCALATION_DECIDED,
        Kind.ESCALATION_FIRST_DECIDED,
        Kind.ESCALATION_FIRST_ENDED,
        Kind.ESCALATION_REOPENED,
        Kind.PROPOSAL_SUBMITTED,
        Kind.VERDICT_GIVEN,
    }
)


@dataclass(frozen=True, kw_only=True)
class RecordedEscalation:
    """What entries record of an escalation: evidence by revision, decision, proposal, verdict, intents.

    `deadline` is None where the entry that opened it has not been read, or gave it none. `firsts` are the
    first decisions of two people by their sequence, `first_ends` why they ended, and `awaiting` is the one
    that awaits a second.
    """

    evidence: dict[int, str]
    decided: dict[str, Any]
    proposal: str
    verdict: Mapping[str, Any] = field(default_factory=dict)
    intents: dict[str, IntentRecord] = field(default_factory=dict)
    deadline: datetime | None = None
    firsts: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    awaiting: int | None = None
    first_ends: dict[int, str] = field(default_factory=dict)


def of(escalation: Escalation) -> RecordedEscalation:
    """What was recorded of an escalation, in one query."""
    evidence: dict[int, str] = {}
    decided: dict[str, Any] = {}
    intents: dict[str, IntentRecord] = {}
    proposal = ""
    verdict: dict[str, Any] = {}
    firsts: dict[int, Mapping[str, Any]] = {}
    first_ends: dict[int, str] = {}
    awaiting: int | None = None
    stream = str(escalation.flow_id)
    deadlines: dict[str, Deadline] = {}
    for kind, at, payload in queries.list_dated(tenant=escalation.tenant, stream=stream, kinds=_KINDS):
        recorded_deadlines.follow(deadlines, kind, at, payload)
        if kind in intent_records.KINDS:
            intent_records.follow(intents, kind, payload)
        elif kind is Kind.PROPOSAL_SUBMITTED:
            if payload.get("proposal_id") == str(escalation.proposal_id):
                proposal = proposal or payload["proposal_digest"]
        elif kind is Kind.VERDICT_GIVEN:
            if payload.get("proposal_id") == str(escalation.proposal_id):
                verdict = verdict or payload
        elif payload.get("escalation_id") != str(escalation.pk):
            continue
        elif kind is Kind.ESCALATION_DECIDED:
            decided = decided or payload
        elif kind is Kind.ESCALATION_FIRST_DECIDED:
            awaiting = payload["sequence"]
            firsts[payload["sequence"]] = payload
        elif kind is Kind.ESCALATION_FIRST_ENDED:
            awaiting = None
            first_ends[payload["sequence"]] = payload["why"]
        elif kind is Kind.ESCALATION_REOPENED:
            decided = {}
        elif kind in _REVISIONS:
            evidence.setdefault(payload["revision"], payload["evidence_hash"])
    deadline = deadlines.get(str(escalation.pk))
    return RecordedEscalation(
        evidence=evidence,
        decided=decided,
        proposal=proposal,
        verdict=verdict,
        intents=intents,
        deadline=None if deadline is None else deadline.at,
        firsts=firsts,
        awaiting=awaiting,
        first_ends=first_ends,
    )


def compare_evidence(known: RecordedEscalation, rows: Iterable[Evidence]) -> list[Mismatch]:
    """The revisions that are not what was recorded."""
    found = (
        mismatches.compare(
            "evidence.body", f"revision {row.revision}", known.evidence.get(row.revision, ""), row.body
        )
        for row in rows
    )
    return [mismatch for mismatch in found if mismatch is not None]


@dataclass(frozen=True, kw_only=True)
class CheckedBasis:
    """What a person decides on, compared with the ledger: any mismatch blocks execution.

    `evidence` is the current one, and `body` its stored bytes; None and empty where anything does not match.
    """

    known: RecordedEscalation
    mismatches: Sequence[Mismatch]
    evidence: AnyEvidence | None
    body: bytes


def check_basis(escalation: Escalation) -> CheckedBasis:
    """Compare the current evidence, the proposal and the intent with what was recorded of them."""
    known = of(escalation)
    newest = max(known.evidence, default=0)
    hash_in_force = known.evidence.get(newest, "")
    row = _REVISION.first(escalation_id=escalation.pk, revision=newest)
    found = compare_evidence(known, [] if row is None else [row])
    # The current revision exists under its own hash: one that was deleted matches nothing.
    where = f"revision {newest}"
    if row is None:
        found.append(Mismatch(row="evidence.body", row_id=where, recorded=hash_in_force, found=""))
    elif row.hash != hash_in_force:
        found.append(Mismatch(row="evidence.hash", row_id=where, recorded=hash_in_force, found=row.hash))
    if (escalation.revision, escalation.evidence_hash) != (newest, hash_in_force):
        found.append(
            Mismatch(
                row="escalation.evidence_hash",
                row_id=str(escalation.pk),
                recorded=hash_in_force,
                found=escalation.evidence_hash,
            )
        )
    body = b"" if row is None or found else bytes(row.body)
    shown = evidence_contracts.read_evidence(body) if body else None
    # How much is asked of a person follows from the impact, so it is that of the current evidence.
    if shown is not None and escalation.impact != shown.impact:
        found.append(
            Mismatch(
                row="escalation.impact",
                row_id=str(escalation.pk),
                recorded=shown.impact,
                found=escalation.impact,
            )
        )
    # A deadline that was put off, or taken away, decides nothing; an earlier one only ends it sooner.
    stored = escalation.deadline_at
    if known.deadline is not None and (stored is None or stored > known.deadline):
        found.append(
            Mismatch(
                row="escalation.deadline_at",
                row_id=str(escalation.pk),
                recorded=time_text(known.deadline),
                found="" if stored is None else time_text(stored),
            )
        )
    if escalation.proposal is not None:
        wrong = mismatches.compare(
            "proposal.body", str(escalation.proposal_id), known.proposal, escalation.proposal.body
        )
        found += [] if wrong is None else [wrong]
    if escalation.intent is not None:
        # Whoever resumes it would confirm the window and the lifted limits that the row holds.
        moved = recorded_flow.compare_progress(
            escalation.intent, known.intents.get(str(escalation.intent_id))
        )
        found += [] if moved is None else [moved]
    found += _compare_awaiting(escalation, known)
    return CheckedBasis(
        known=known, mismatches=found, evidence=None if found else shown, body=b"" if found else body
    )


def get_revision(known: RecordedEscalation, evidence_hash: str) -> int | None:
    """The newest revision that was recorded with this hash; None where the escalation never had it."""
    return max((number for number, digest in known.evidence.items() if digest == evidence_hash), default=None)


def read_revision(escalation: Escalation, known: RecordedEscalation, revision: int) -> AnyEvidence | None:
    """One revision of the evidence; None where its row is not what was recorded."""
    row = _REVISION.first(escalation_id=escalation.pk, revision=revision)
    if row is None or compare_evidence(known, [row]):
        return None
    return evidence_contracts.read_evidence(bytes(row.body))


def _revision(*, escalation_id: UUID, revision: int) -> QuerySet[Evidence]:
    return Evidence.objects.filter(escalation=escalation_id, revision=revision)


_REVISION: Final = statements.Read(_revision)


def compare_verdict(known: RecordedEscalation, proposal: Proposal) -> Mismatch | None:
    """What does not match of the verdict on a proposal: its input, its rules or its answer."""
    of_flow = recorded_flow.RecordedFlow(verdicts={str(proposal.pk): known.verdict})
    try:
        return of_flow.compare_verdict(proposal.verdict)
    except ObjectDoesNotExist:
        digest = known.verdict.get("verdict_digest", "")
        return Mismatch(row="verdict.body", row_id=str(proposal.pk), recorded=digest, found="")


def _compare_awaiting(escalation: Escalation, known: RecordedEscalation) -> list[Mismatch]:
    """What does not match of a first decision that awaits a second.

    By the digests of its statement alone: whoever is shown this may be the second, and must not read the
    choice from it.
    """
    row, recorded = escalation.first_decision, known.firsts.get(known.awaiting or 0, {})
    if row is None and not recorded:
        return []
    digest = recorded.get("statement_digest", "")
    if row is None or row.sequence != known.awaiting:
        found = "" if row is None else cells.digest_of(row.statement)
        return [Mismatch(row="decision.state", row_id=str(escalation.pk), recorded=digest, found=found)]
    return [
        Mismatch(row=item.row, row_id=item.row_id, recorded=digest, found=cells.digest_of(row.statement))
        for item in compare_signed(recorded, row)
    ]


def compare_decision(known: RecordedEscalation, decision: Decision) -> list[Mismatch]:
    """What does not match of the decision in effect: its entry, its columns, or its signature."""
    return compare_signed(known.decided, decision)


def compare_signed(payload: Mapping[str, Any], decision: Decision) -> list[Mismatch]:
    """The same of any decision, with the payload of the entry about it."""
    wrong = mismatches.compare(
        "decision.statement", str(decision.pk), payload.get("statement_digest", ""), decision.statement
    )
    if wrong is not None:
        return [wrong]
    stated = canonical.decode(bytes(decision.statement))
    columns = {
        "action": decision.action,
        "revision": decision.revision,
        "evidence_hash": decision.evidence_hash,
        "justification": decision.justification,
        "approver": actors.user(decision.approver_id),
        "solo": decision.solo,
    }
    unlike = [name for name, value in columns.items() if stated.get(name) != value]
    if not _is_signed(decision, payload):
        unlike.append("signature")
    return [
        Mismatch(
            row=f"decision.{name}",
            row_id=str(decision.pk),
            recorded=str(stated.get(name, "")),
            found=str(columns.get(name, "")),
        )
        for name in unlike
    ]


def _is_signed(decision: Decision, payload: Mapping[str, Any]) -> bool:
    """Whether the signature is the recorded one; for a key that is not known here, no more can be checked."""
    signature = cells.bytes_of(decision.signature)
    if signature is None or signature.hex() != payload["signature"]:
        return False
    if decision.key_id != payload["key_id"]:
        return False
    signed, key_id = bytes(decision.statement), decision.key_id
    verified = signing.verify(signed, signature, key_id)
    if verified is None:
        ring = keys.keyring(tenant=decision.escalation.tenant)
        verified = ring.verify(signed, signature, key_id, at=decision.decided_at)
    return verified is not False
