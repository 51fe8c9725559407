"""The six statuses of a DecisionRecord, and in one word what the decision came to (ContextOS). Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

STOPPING: Final = ("ABORT", "STOP_AGENT")


class Status(StrEnum):
    """The six statuses of a record."""

    DECIDED = "DECIDED"
    DEFERRED = "DEFERRED"
    REJECTED = "REJECTED"
    ESCALATED = "ESCALATED"
    IN_FLIGHT = "IN_FLIGHT"
    CLOSED = "CLOSED"


_OUTCOMES: Final[Mapping[Status, str]] = {
    Status.DECIDED: "accepted",
    Status.IN_FLIGHT: "accepted",
    Status.REJECTED: "denied",
    Status.ESCALATED: "escalated",
    Status.DEFERRED: "deferred",
    Status.CLOSED: "retired",
}


def status(flow: Mapping[str, Any]) -> Status:
    """The status that follows from the `flow` part of a record."""
    refused = flow["verdict"] == "REJECT" or (flow["action"] in STOPPING and flow["outcome"] is None)
    match flow["state"]:
        case "CLOSED":
            outcome = flow["outcome"]
            done = outcome["status"] == "SUCCEEDED" if outcome else flow["verdict"] == "ACCEPT"
            return Status.DECIDED if done else Status.CLOSED
        case "ABORTED":
            return Status.REJECTED if refused else Status.CLOSED
        case "ESCALATED":
            return Status.DEFERRED if flow["asked"] else Status.ESCALATED
        case "CREATED" | "ACTIVE":
            return Status.REJECTED if refused else Status.DEFERRED
    return Status.IN_FLIGHT


def outcome(reached: Status, flow: Mapping[str, Any]) -> str:
    """What the decision came to, in one word: the kind's own, where it has one for what succeeded."""
    own = flow.get("named", {}).get("outcome")
    if own and reached is Status.DECIDED:
        return str(own)
    if flow["outcome"] and reached in (Status.DECIDED, Status.CLOSED):
        return str(flow["outcome"]["status"]).lower()
    return _OUTCOMES[reached]
