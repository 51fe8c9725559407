"""The lanes of a decision, and what a presenter says of one kind of entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Lane(StrEnum):
    """Who acts, in the order of a decision. SYSTEM has no column of its own in the timeline."""

    CONTEXT = "CONTEXT"
    REASONING = "REASONING"
    PROPOSAL = "PROPOSAL"
    VALIDATION = "VALIDATION"
    ESCALATION = "ESCALATION"
    DECISION = "DECISION"
    EXECUTION = "EXECUTION"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True, slots=True)
class LaneShown:
    """A lane of the timeline: its column from 1 (`.lane-1` in the style sheet), name, icon and tone."""

    column: int
    name: str
    icon: str
    tone: str


LANES: Mapping[Lane, LaneShown] = MappingProxyType(
    {
        Lane.CONTEXT: LaneShown(1, "Context", "layers", "info"),
        Lane.REASONING: LaneShown(2, "Reasoning", "thought", "violet"),
        Lane.PROPOSAL: LaneShown(3, "Proposal", "send", "accent"),
        Lane.VALIDATION: LaneShown(4, "Validation", "shield", "ok"),
        Lane.ESCALATION: LaneShown(5, "Escalation", "refer", "warn"),
        Lane.DECISION: LaneShown(6, "Decision", "user", "rose"),
        Lane.EXECUTION: LaneShown(7, "Execution", "bolt", "idle"),
    }
)


@dataclass(frozen=True, slots=True)
class Presenter:
    """`icon` is an id in static/icons.svg; `sentence` takes the payload."""

    icon: str
    lane: Lane
    title: str
    sentence: Callable[[Mapping[str, Any]], str]
