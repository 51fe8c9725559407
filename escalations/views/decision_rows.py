"""One decision in words: for the lines of the page, and for files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from audit import cells
from escalations import presenters
from escalations.presenters import Piece
from escalations.services.recorded_decisions import RecordedDecision
from escalations.views.two_people import FIRST_OF_TWO
from runtime.contracts import timestamps
from runtime.contracts.verdict import Segment
from runtime.core.views import labels, times
from runtime.core.views.labels import Badge
from runtime.flows.views import flow_words

NOTHING_RAN = Badge("idle", "stop", "Nothing ran")
TAKEN_BACK = Badge("warn", "undo", "Taken back")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A line of the page. Of one that does not match the ledger only the ids and `untrusted` are shown."""

    escalation_id: str
    dfid: str
    untrusted: Sequence[str]
    decided_at: datetime
    erased: bool = False
    person: str = ""
    solo: bool = False
    action: Badge | None = None
    effect: Sequence[Piece] = ()
    ran_effect: Sequence[Piece] = ()
    agent_id: str = ""
    policy_kind: str = ""
    reason: str = ""
    meaning: str = ""
    crossed: Sequence[str] = ()
    justification: str = ""
    revision: int = 0
    took: str = ""
    outcome: Badge | None = None
    standing: Badge | None = None


def shown(record: RecordedDecision) -> DecisionRow:
    """The line of a decision."""
    row, evidence = record.decision, record.evidence
    about: dict[str, Any] = {
        "escalation_id": str(row.escalation_id),
        "dfid": str(row.escalation.flow_id),
        "untrusted": [item.row for item in record.mismatches],
        "decided_at": row.decided_at,
    }
    if record.is_erased:
        # What the entry of the decision still says.
        return DecisionRow(**about, erased=True, person=row.approver.get_username())
    if evidence is None:
        return DecisionRow(**about)
    return DecisionRow(
        **about,
        person=row.approver.get_username(),
        solo=row.solo,
        action=labels.badge(presenters.RESOLUTIONS, row.action),
        effect=presenters.segments(evidence),
        ran_effect=[Piece(text=part.text, value=part.value) for part in record.effect],
        agent_id=evidence.agent_id,
        policy_kind=evidence.policy_kind,
        reason=evidence.reason,
        meaning=labels.meaning(evidence.reason),
        crossed=[name for name in record.crossed if name != evidence.reason],
        justification=labels.visible_lines(row.justification),
        revision=row.revision,
        took="" if record.opened_at is None else times.span(row.decided_at - record.opened_at),
        outcome=NOTHING_RAN if record.intent is None else flow_words.ended(record.intent),
        standing=_standing(record),
    )


def exported(record: RecordedDecision) -> dict[str, Any]:
    """The same as plain values, with everything that checking it elsewhere needs."""
    row, evidence = record.decision, record.evidence
    about: dict[str, Any] = {
        "escalation_id": str(row.escalation_id),
        "dfid": str(row.escalation.flow_id),
        "matches_ledger": evidence is not None,
    }
    if record.is_erased:
        return about | {"matches_ledger": True, "erased": True, "mismatches": []}
    if evidence is None:
        return about | {"mismatches": [item.row for item in record.mismatches]}
    statement: Mapping[str, Any] = record.statement
    seconds = None if record.opened_at is None else (row.decided_at - record.opened_at).total_seconds()
    return about | {
        "decided_at": statement["decided_at"],
        "person": row.approver.get_username(),
        "approver": statement["approver"],
        "action": row.action,
        "solo": row.solo,
        "taken_back": record.is_taken_back,
        "first_of_two": record.is_first_of_two,
        "effect": _text(evidence.effect),
        "ran_effect": _text(record.effect),
        "agent_id": evidence.agent_id,
        "policy_kind": evidence.policy_kind,
        "impact": statement["impact"],
        "reason": evidence.reason,
        "rules": [name for name in record.crossed if name != evidence.reason],
        "justification": row.justification,
        "conditions": list(statement.get("conditions", ())),
        "opened_at": None if record.opened_at is None else timestamps.iso(record.opened_at),
        "seconds_taken": seconds,
        "revision": row.revision,
        "evidence_hash": row.evidence_hash,
        "proposal_id": statement.get("proposal_id"),
        "intent_id": record.intent_id or None,
        "outcome": _status(record),
        "statement": bytes(row.statement).decode(),
        "statement_digest": cells.digest_of(row.statement),
        "signature": bytes(row.signature).hex(),
        "key_id": row.key_id,
        "record": reverse("recorded-decision", args=[row.escalation_id]),
    }


def _standing(record: RecordedDecision) -> Badge | None:
    """What keeps the decision from having an effect of its own."""
    if record.is_taken_back:
        return TAKEN_BACK
    return FIRST_OF_TWO if record.is_first_of_two else None


def _text(effect: Sequence[Segment]) -> str:
    return "".join(piece.text for piece in effect)


def _status(record: RecordedDecision) -> str:
    """The recorded outcome of the intent, or the state in which it rests; PENDING while neither is."""
    if record.intent is None:
        return "NONE"
    return str(record.intent.outcome.get("status") or record.intent.at_rest or "PENDING")
