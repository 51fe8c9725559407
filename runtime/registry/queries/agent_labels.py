"""The labels that an agent has, as the ledger records them: no row holds them, so none can be taken away."""

from dataclasses import dataclass, field
from datetime import datetime

from audit import canonical
from audit.events import Kind
from runtime.contracts import timestamps
from runtime.kernel import source_labels
from runtime.kernel.source_labels import Held
from runtime.registry.models import Agent
from runtime.registry.queries import agent_entries


@dataclass(frozen=True, kw_only=True)
class RecordedLabels:
    """What the last entry about an agent's labels records; without one it has none.

    `digest` is of its bytes, empty without one: what a person says was shown to them.
    """

    held: Held = field(default_factory=dict)
    digest: str = ""

    def at(self, moment: datetime) -> dict[str, int | None]:
        """The labels that it has then, with their ends in Unix milliseconds."""
        return source_labels.held_at(self.held, timestamps.to_ms(moment))


def get_recorded(agent: Agent) -> RecordedLabels | None:
    """The labels that the ledger records; None where the entry cannot be read: then nothing is known of them.

    One query by an index; most agents have no such entry.
    """
    body = agent_entries.last_body(agent, Kind.AGENT_LABELS_CHANGED)
    if body is None:
        return RecordedLabels()
    try:
        said = canonical.decode(body)["payload"]
        ends = [None if end is None else datetime.fromisoformat(end) for end in said["until"]]
        held = {
            str(label): None if end is None else timestamps.to_ms(end)
            for label, end in zip(said["labels"], ends, strict=True)
        }
    except (canonical.CanonicalError, KeyError, TypeError, ValueError):
        return None
    return RecordedLabels(held=held, digest=canonical.digest(body))
