"""Ledger entries as a timeline: lane, title and one line of words for each kind of entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from audit.events import Kind
from audit.models import LedgerEntry
from runtime.views import presenters, summaries

WAIT = timedelta(seconds=5)


class Lane(IntEnum):
    """Who acts: one column each, in the order a decision takes."""

    CONTEXT = 1
    REASONING = 2
    PROPOSAL = 3
    VALIDATION = 4
    ESCALATION = 5
    DECISION = 6
    EXECUTION = 7


@dataclass(frozen=True, slots=True)
class LaneWords:
    """A lane's name, icon and tone."""

    lane: Lane
    name: str
    icon: str
    tone: str


LANES: Mapping[Lane, LaneWords] = {
    Lane.CONTEXT: LaneWords(Lane.CONTEXT, "Context", "layers", "info"),
    Lane.REASONING: LaneWords(Lane.REASONING, "Reasoning", "thought", "violet"),
    Lane.PROPOSAL: LaneWords(Lane.PROPOSAL, "Proposal", "send", "accent"),
    Lane.VALIDATION: LaneWords(Lane.VALIDATION, "Validation", "shield", "ok"),
    Lane.ESCALATION: LaneWords(Lane.ESCALATION, "Escalation", "refer", "warn"),
    Lane.DECISION: LaneWords(Lane.DECISION, "Decision", "user", "danger"),
    Lane.EXECUTION: LaneWords(Lane.EXECUTION, "Execution", "bolt", "idle"),
}
_LANE_OF_NOUN: Mapping[str, Lane] = {
    "context": Lane.CONTEXT,
    "fact": Lane.CONTEXT,
    "step": Lane.REASONING,
    "usage": Lane.REASONING,
    "budget": Lane.ESCALATION,
    "proposal": Lane.PROPOSAL,
    "verdict": Lane.VALIDATION,
    "review": Lane.VALIDATION,
    "escalation": Lane.ESCALATION,
    "information": Lane.ESCALATION,
    "intent": Lane.EXECUTION,
    "attempt": Lane.EXECUTION,
    "outcome": Lane.EXECUTION,
    "resource": Lane.EXECUTION,
}
_LANE_OF_KIND: Mapping[str, Lane] = {
    Kind.ESCALATION_DECIDED: Lane.DECISION,
    Kind.ESCALATION_CLAIMED: Lane.DECISION,
    Kind.ESCALATION_RELEASED: Lane.DECISION,
    Kind.ESCALATION_REFUSED: Lane.DECISION,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One entry, ready to show."""

    seq: int
    id: int
    kind: str
    stream: str
    lane: LaneWords
    tone: str
    title: str
    summary: str
    actor: str
    by_person: bool
    at: datetime
    offset: str
    wait: str
    wait_for: str
    hash: str
    claim: bool


def lane_of(kind: str, payload: Mapping[str, Any]) -> Lane:
    """The lane of an entry. A move of the flow belongs to whoever caused it."""
    if kind == Kind.FLOW_MOVED:
        return _LANE_OF_STATE.get(str(payload.get("to_state")), Lane.CONTEXT)
    return _LANE_OF_KIND.get(kind) or _LANE_OF_NOUN.get(kind.partition(":")[0], Lane.CONTEXT)


_LANE_OF_STATE: Mapping[str, Lane] = {
    "VALIDATING": Lane.VALIDATION,
    "ACCEPTED": Lane.VALIDATION,
    "ESCALATED": Lane.ESCALATION,
    "EXECUTING": Lane.EXECUTION,
    "CLOSED": Lane.EXECUTION,
    "ABORTED": Lane.EXECUTION,
}


def lines(
    entries: Sequence[LedgerEntry],
    *,
    names: Mapping[str, str],
    begun_at: datetime | None = None,
    previous_at: datetime | None = None,
) -> list[Line]:
    """The entries in the order given; with `begun_at`, offsets from it and waits between them."""
    made = []
    for entry in entries:
        payload = entry.payload
        gap = entry.at - previous_at if begun_at and previous_at else timedelta()
        words = LANES[lane_of(entry.kind, payload)]
        made.append(
            Line(
                seq=entry.seq,
                id=entry.pk,
                kind=entry.kind,
                stream=entry.stream,
                lane=words,
                tone=summaries.tone(entry.kind, payload) or words.tone,
                title=summaries.title(entry.kind, payload),
                summary=summaries.summary(entry.kind, payload),
                actor=presenters.actor_words(entry.actor, names),
                by_person=entry.actor.startswith("user:"),
                at=entry.at,
                offset=f"+{presenters.span(entry.at - begun_at)}" if begun_at else "",
                wait=presenters.span(gap) if gap >= WAIT else "",
                wait_for=_waited_for(entry.actor) if gap >= WAIT else "",
                hash=bytes(entry.hash).hex(),
                claim=entry.kind == Kind.STEP_REPORTED,
            )
        )
        previous_at = entry.at
    return made


def _waited_for(actor: str) -> str:
    """Who ended the wait is who was waited for."""
    match actor.partition(":")[0]:
        case "user":
            return "a person"
        case "agent":
            return "the agent"
        case _:
            return "the runtime"
