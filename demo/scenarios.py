"""What a person can make go wrong in the running demo: which scenarios there are, and which run now."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from demo.market import BASE_CENTS

# What a moved price is multiplied by, in hundredths.
MOVED_PERCENT: Final = 130


class Scenario(StrEnum):
    """What goes wrong on purpose; the broker plays all of them but the two that the agents play."""

    DROP_ANSWERS = "drop-answers"
    CLOSE_MARKET = "close-market"
    SPEND_BUDGET = "spend-budget"
    SILENCE_MONITOR = "silence-monitor"
    MOVE_PRICE = "move-price"
    CRASH_BROKER = "crash-broker"


# Seconds after which each ends by itself. The monitor is missed after a minute.
LASTS_S: Final[Mapping[Scenario, int]] = MappingProxyType(
    {
        Scenario.DROP_ANSWERS: 60,
        Scenario.CLOSE_MARKET: 60,
        Scenario.SPEND_BUDGET: 60,
        Scenario.SILENCE_MONITOR: 150,
        Scenario.MOVE_PRICE: 90,
        Scenario.CRASH_BROKER: 60,
    }
)


@dataclass
class Board:
    """The scenarios that run now, by the broker's clock; a broker that restarts has forgotten them."""

    clock: Callable[[], float] = time.monotonic
    _ends: dict[Scenario, float] = field(default_factory=dict)
    _symbol: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, scenario: Scenario, *, symbol: str = "") -> None:
        """Run a scenario for its time from now on; ``symbol`` is whose price moves."""
        with self._lock:
            self._ends[scenario] = self.clock() + LASTS_S[scenario]
            if scenario is Scenario.MOVE_PRICE:
                self._symbol = symbol

    def end(self, scenario: Scenario) -> None:
        """End a scenario before its time; nothing where it does not run."""
        with self._lock:
            self._ends.pop(scenario, None)

    def left_s(self, scenario: Scenario) -> float:
        """Seconds until it ends by itself; 0 where it does not run."""
        with self._lock:
            return max(0.0, self._ends.get(scenario, 0.0) - self.clock())

    def is_running(self, scenario: Scenario) -> bool:
        """Whether it is to be played now."""
        return self.left_s(scenario) > 0

    def moved(self, cents: Mapping[str, int]) -> dict[str, int]:
        """The prices as they are shown: one of them higher while that scenario runs."""
        if not self.is_running(Scenario.MOVE_PRICE):
            return dict(cents)
        return {
            symbol: price * MOVED_PERCENT // 100 if symbol == self._symbol else price
            for symbol, price in cents.items()
        }

    def to_json(self) -> dict[str, Any]:
        """What ``GET /scenarios`` answers."""
        return {
            "scenarios": {
                scenario.value: {"left_s": round(self.left_s(scenario), 1), "lasts_s": LASTS_S[scenario]}
                for scenario in Scenario
            },
            "symbols": list(BASE_CENTS),
            "symbol": self._symbol,
        }


@dataclass(frozen=True)
class Wish:
    """What ``POST /scenarios`` asks for."""

    scenario: Scenario
    run: bool
    symbol: str


def parse(body: Mapping[str, Any]) -> Wish | str:
    """What is asked of the board, or the sentence that says what is wrong with the body."""
    try:
        scenario = Scenario(body.get("scenario", ""))
    except ValueError:
        return f"scenario must be one of {', '.join(Scenario)}"
    run, symbol = body.get("run"), body.get("symbol", "")
    if not isinstance(run, bool):
        return "run must be true or false"
    if scenario is Scenario.MOVE_PRICE and run and symbol not in BASE_CENTS:
        return f"symbol must be one of {', '.join(BASE_CENTS)}"
    return Wish(scenario=scenario, run=run, symbol=symbol if isinstance(symbol, str) else "")
