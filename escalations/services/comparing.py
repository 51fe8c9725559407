"""Whether the rows that a person decides on are what the ledger recorded: nothing else is shown as evidence.

Digests come from the entries of the flow, not from a column beside the bytes: `runtime.queries.recorded`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from audit import canonical, queries, signing
from audit.events import Kind
from escalations.models import Decision, Escalation, Evidence
from runtime.queries import recorded
from runtime.queries.recorded import Mismatch

_KINDS = (Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED, Kind.ESCALATION_DECIDED, Kind.PROPOSAL_SUBMITTED)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the entries of an escalation's flow say: evidence by revision, the decision, the proposal."""

    evidence: dict[int, str]
    decided: dict[str, Any]
    proposal: str


def of(escalation: Escalation) -> Recorded:
    """What was recorded of an escalation, in one query."""
    evidence: dict[int, str] = {}
    decided: dict[str, Any] = {}
    proposal = ""
    stream = str(escalation.flow_id)
    for kind, said in queries.list_payloads(tenant=escalation.tenant, stream=stream, kinds=_KINDS):
        if kind is Kind.PROPOSAL_SUBMITTED:
            if said.get("proposal_id") == str(escalation.proposal_id):
                proposal = proposal or said["proposal_digest"]
        elif said.get("escalation_id") != str(escalation.pk):
            continue
        elif kind is Kind.ESCALATION_DECIDED:
            decided = decided or said
        else:
            evidence.setdefault(said["revision"], said["evidence_hash"])
    return Recorded(evidence=evidence, decided=decided, proposal=proposal)


def compare_evidence(known: Recorded, rows: Iterable[Evidence]) -> list[Mismatch]:
    """The revisions that are not what was recorded."""
    found = (
        recorded.compare(
            "evidence.body", f"revision {row.revision}", known.evidence.get(row.revision, ""), row.body
        )
        for row in rows
    )
    return [mismatch for mismatch in found if mismatch is not None]


def compare_basis(escalation: Escalation, known: Recorded | None = None) -> list[Mismatch]:
    """What does not match of the evidence in force and the proposal: with any of it, nothing may be run."""
    known = known or of(escalation)
    newest = max(known.evidence, default=0)
    hash_in_force = known.evidence.get(newest, "")
    found = compare_evidence(known, Evidence.objects.filter(escalation=escalation, revision=newest))
    if (escalation.revision, escalation.evidence_hash) != (newest, hash_in_force):
        found.append(
            Mismatch(
                row="escalation.evidence_hash",
                row_id=str(escalation.pk),
                recorded=hash_in_force,
                found=escalation.evidence_hash,
            )
        )
    if escalation.proposal is not None:
        wrong = recorded.compare(
            "proposal.body", str(escalation.proposal_id), known.proposal, escalation.proposal.body
        )
        found += [] if wrong is None else [wrong]
    return found


def compare_decision(known: Recorded, decision: Decision) -> list[Mismatch]:
    """What does not match of a decision: its entry, its columns, or its signature."""
    said = known.decided
    wrong = recorded.compare(
        "decision.statement", str(decision.pk), said.get("statement_digest", ""), decision.statement
    )
    if wrong is not None:
        return [wrong]
    stated = canonical.decode(bytes(decision.statement))
    columns = {
        "action": decision.action,
        "revision": decision.revision,
        "evidence_hash": decision.evidence_hash,
        "justification": decision.justification,
        "approver": f"user:{decision.approver_id}",
        "solo": decision.solo,
    }
    unlike = [name for name, value in columns.items() if stated.get(name) != value]
    is_recorded = bytes(decision.signature).hex() == said["signature"] and decision.key_id == said["key_id"]
    signed = signing.verify(bytes(decision.statement), bytes(decision.signature), decision.key_id)
    if not is_recorded or signed is False:
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
