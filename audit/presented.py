"""What is shown of a kind of ledger entry: its lane, icon, short title and summary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
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
class Presenter:
    """`icon` is an id in static/icons.svg; `sentence` takes the payload."""

    icon: str
    lane: Lane
    title: str
    sentence: Callable[[Mapping[str, Any]], str]
