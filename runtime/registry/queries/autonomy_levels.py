"""An agent's level of autonomy as the ledger records it: a level in a row proves nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from audit import actors, canonical
from audit.events import Kind
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AutonomyLevel
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.registry.models import Agent
from runtime.registry.queries import agent_entries


@dataclass(frozen=True, kw_only=True)
class RecordedLevel:
    """What the last entry about an agent's level records; without one the agent is AUTONOMOUS.

    `digest` is of its bytes, empty without one: what a person says was shown to them.
    """

    level: AutonomyLevel = AutonomyLevel.AUTONOMOUS
    score: int = 0
    at: datetime | None = None
    by: str = ""
    reason: str = ""
    counts_from: datetime | None = None
    digest: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the agent's row, as they should be."""
        return {
            "autonomy": self.level,
            "autonomy_score": self.score,
            "autonomy_at": self.at,
            "autonomy_by": self.by,
            "autonomy_reason": self.reason,
            "autonomy_counts_from": self.counts_from,
        }


# An entry that cannot be read says nothing of a level: nothing is let through because of it.
_UNREADABLE: Final = RecordedLevel(
    level=AutonomyLevel.READ_ONLY, by=actors.SYSTEM, reason=Reason.TAMPERED.value
)


def get_recorded(agent: Agent) -> RecordedLevel:
    """The level that the ledger records. One query by an index; most agents have no such entry."""
    return read(agent_entries.last_body(agent, Kind.AGENT_AUTONOMY_CHANGED))


def gate_level(recorded: RecordedLevel) -> AutonomyLevel | None:
    """The level as a fact of the gate: None where the agent is AUTONOMOUS."""
    return None if recorded.level is AutonomyLevel.AUTONOMOUS else recorded.level


def list_unlike(agent: Agent, level: AutonomyLevel | None) -> tuple[Mismatch, ...]:
    """That the row has another level than the ledger (None: AUTONOMOUS), which counts; empty where not."""
    recorded = level or AutonomyLevel.AUTONOMOUS
    if agent.autonomy == recorded:
        return ()
    return (mismatches.of_values("agent.autonomy", agent.agent_id, recorded.value, agent.autonomy),)


def read(stored: bytes | memoryview | None) -> RecordedLevel:
    """The level that the bytes of an agent's last such entry record; None: it has none."""
    if stored is None:
        return RecordedLevel()
    body = bytes(stored)
    try:
        entry = canonical.decode(body)
        said = entry["payload"]
        since = said["counts_from"]
        return RecordedLevel(
            level=AutonomyLevel(said["to_level"]),
            score=int(said["score"]),
            at=datetime.fromisoformat(entry["at"]),
            by=str(entry["actor"]),
            reason=str(said["reason"]),
            counts_from=None if since is None else datetime.fromisoformat(since),
            digest=canonical.digest(body),
        )
    except (canonical.CanonicalError, KeyError, TypeError, ValueError):
        return _UNREADABLE
