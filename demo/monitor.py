"""The monitor: looks at what the others may lose, says so, and now and then falls silent for minutes."""

from typing import ClassVar, Final

from demo.agent_base import Persona

# Its manifest allows a minute: people are called in the first third of a silence, and see it end.
_SILENT_EVERY: Final = 12
_CENTS: Final = 100


class Watchful(Persona):
    """Proposes nothing; each turn is a report in a flow of its own."""

    pace_s = (9.0, 14.0)
    silence_s: ClassVar[float] = 210.0

    def turn(self) -> None:
        """A look and a report; after a dozen of them nothing at all, as if it hung."""
        dfid, context = self.begin(trigger="schedule: look at the risk")
        cash = context.fact("cash.operations")
        left = f"{cash // _CENTS:,} USD" if isinstance(cash, int) else "an amount that it cannot see"
        self.client.report_step(dfid, step_type="self_check", words=f"Operations have {left} left.")
        self.client.close_flow(dfid, reason="Seen, and nothing to propose.")
        if self.turns % _SILENT_EVERY == 0:
            self.stop.wait(self.silence_s)
