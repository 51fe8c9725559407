"""The strategist: opens a flow for its plan, lets others act under it, and closes it when they have."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from demo.agent_base import Persona

SCOPE: Final = "desk-notes"
_ORDERS: Final = 2
_LISTEN_S: Final = 10


@dataclass
class Strategist(Persona):
    """Delegates two actions under one flow; whoever is still at it when patience ends is stopped with it."""

    desks: Sequence[Persona] = ()
    heard: int = field(default=0)

    pace_s: ClassVar[tuple[float, float]] = (25.0, 40.0)
    # Long enough for a person to decide on what a desk escalates; then the plan is over, and that with it.
    plan_s: ClassVar[float] = 240.0

    def turn(self) -> None:
        """Plan, delegate, listen for the ends, remember what came of it, close."""
        dfid, _ = self.begin(trigger="schedule: rebalance the sleeve")
        self.client.report_step(dfid, step_type="retrieval", words="Weights and targets of the sleeve.")
        self.client.report_step(dfid, step_type="instruction", words="Two orders, one for each desk.")
        for number in range(_ORDERS if self.desks else 0):
            self.desks[number % len(self.desks)].orders.put(dfid)
        # The states in which the children ended, as far as they did in time.
        ends: list[str] = []
        deadline = time.monotonic() + self.plan_s
        while len(ends) < _ORDERS and (left_s := deadline - time.monotonic()) > 0 and not self.stop.is_set():
            wait_s = max(1, min(int(left_s), _LISTEN_S))
            events, self.heard = self.client.events(after=self.heard, wait_s=wait_s)
            ends += [
                str(event.data["state"])
                for event in events
                if event.event_type == "CHILD_ENDED" and event.data["parent_dfid"] == dfid
            ]
        # Put together by itself: no recorded document holds it, so it is its own conclusion.
        self.client.remember(scope=SCOPE, key="last-plan", value={"dfid": dfid, "ends": ends}, source="agent")
        done = len(ends) == _ORDERS
        self.client.close_flow(dfid, reason="All orders have ended." if done else "The plan's time is over.")
