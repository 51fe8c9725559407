"""Until when an escalation could be decided, as its entries say.

A question to the agent moves the deadline by its whole wait, and what was not needed of it moves it back.
Where a decision is taken back, the entry says the deadline from then on.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from audit.events import Kind

KINDS = frozenset(
    {
        Kind.ESCALATION_OPENED,
        Kind.ESCALATION_REOPENED,
        Kind.INFORMATION_REQUESTED,
        Kind.INFORMATION_ANSWERED,
        Kind.INFORMATION_CLOSED,
    }
)


@dataclass(slots=True)
class Deadline:
    """The deadline of one escalation, None for none, and until when each open question waits."""

    at: datetime | None
    waits: dict[int, datetime] = field(default_factory=dict)


def follow(
    deadlines: MutableMapping[str, Deadline], kind: str, at: datetime, payload: Mapping[str, Any]
) -> None:
    """Take the next entry of a flow; `deadlines` holds its escalations by their ids."""
    if kind == Kind.ESCALATION_OPENED:
        text = payload.get("deadline_at")
        deadlines.setdefault(
            payload["escalation_id"], Deadline(None if text is None else datetime.fromisoformat(text))
        )
        return
    deadline = deadlines.get(payload["escalation_id"]) if kind in KINDS else None
    if deadline is None or deadline.at is None:
        return
    if kind == Kind.ESCALATION_REOPENED:
        deadline.at = datetime.fromisoformat(payload["deadline_at"])
        return
    if kind == Kind.INFORMATION_REQUESTED:
        until = datetime.fromisoformat(payload["until"])
        deadline.at += until - at
        deadline.waits[payload["number"]] = until
    elif (until_then := deadline.waits.pop(payload["number"], None)) is not None:
        deadline.at -= max(until_then - at, timedelta())
