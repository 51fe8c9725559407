"""The agents' part in the scenarios: the broker's board says which run, and the agents play them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from types import MappingProxyType
from typing import Final

from demo.agent_base import Persona
from demo.http_client import Unreachable, Wire
from demo.scenarios import Scenario

_OK: Final = 200

# Who plays which scenario, and by what.
PARTS: Final[Mapping[Scenario, tuple[str, Callable[[Persona], Event]]]] = MappingProxyType(
    {
        Scenario.SILENCE_MONITOR: ("risk-monitor", lambda persona: persona.falls_silent),
        Scenario.SPEND_BUDGET: ("momentum-trader", lambda persona: persona.overspends),
    }
)


@dataclass
class Cues:
    """Carries the board to the agents that play a part; an unreachable broker ends every part."""

    broker: Wire
    personas: Mapping[str, Persona]

    def take(self) -> None:
        """Read the board once and set or clear each part."""
        try:
            answer = self.broker.call("GET", "/scenarios")
        except Unreachable:
            running: Mapping[str, Mapping[str, float]] = {}
        else:
            running = answer.body["scenarios"] if answer.status == _OK else {}
        for scenario, (agent_id, part) in PARTS.items():
            persona = self.personas.get(agent_id)
            if persona is None:
                continue
            cue = part(persona)
            if running.get(scenario, {}).get("left_s", 0) > 0:
                cue.set()
            else:
                cue.clear()
