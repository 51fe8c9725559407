"""Prices and opening hours of the paper market: functions of a seed and the seconds since start."""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

BASE_CENTS: Final[Mapping[str, int]] = {
    "AAPL": 18950,
    "MSFT": 41620,
    "NVDA": 12140,
    "GOOG": 17235,
    "AMZN": 18410,
    "BTC-USD": 6500000,
}
# What the desk holds when the broker opens; the pack starts its world with the same.
HELD: Final[Mapping[str, int]] = {
    "AAPL": 120,
    "MSFT": 60,
    "NVDA": 200,
    "GOOG": 90,
    "AMZN": 80,
    "BTC-USD": 2,
}
# Cents in the desk's accounts when the broker opens; the pack starts its world with the same.
CASH: Final[Mapping[str, int]] = {"operations": 25_000_000, "settlement": 8_000_000, "reserve": 40_000_000}
# The account that orders are paid from and into.
TRADING_ACCOUNT: Final = "operations"
TICK_S: Final = 3.0
CYCLE_S: Final = 300.0
CLOSED_S: Final = 20.0
# The basket desk takes no purchases of one symbol at a time, the next one after each turn.
SHUT_TURN_S: Final = 40.0
# The watchlist's own service is being looked after once per cycle, some time before the close.
CARE_FROM_S: Final = 150.0
CARE_S: Final = 40.0

_MOVES_SHARE = 0.4
_JUMP_SHARE = 0.02
_STEP_BPS = 6
_JUMP_BPS = 90
_PULL = 0.02


class Schedule(StrEnum):
    """When the market is open: always, never, or with one short close per cycle."""

    OPEN = "open"
    CLOSED = "closed"
    CYCLE = "cycle"


def market_state(*, schedule: Schedule, elapsed_s: float) -> str:
    """``OPEN`` or ``CLOSED``; a cycle starts open and ends with the close."""
    if schedule is Schedule.CYCLE:
        return "CLOSED" if elapsed_s % CYCLE_S >= CYCLE_S - CLOSED_S else "OPEN"
    return "OPEN" if schedule is Schedule.OPEN else "CLOSED"


def shut_symbol(*, schedule: Schedule, elapsed_s: float) -> str | None:
    """The symbol that the basket desk does not buy now; None outside a cycle, where it buys them all."""
    if schedule is not Schedule.CYCLE:
        return None
    return tuple(BASE_CENTS)[int(elapsed_s / SHUT_TURN_S) % len(BASE_CENTS)]


def in_care(*, schedule: Schedule, elapsed_s: float) -> bool:
    """Whether the watchlist's service is down for maintenance."""
    return schedule is Schedule.CYCLE and 0 <= elapsed_s % CYCLE_S - CARE_FROM_S < CARE_S


@dataclass
class Walk:
    """A random walk per symbol, pulled back to its base so that a long demo stays plausible.

    Small steps stay inside an agent's slippage bound; a rare jump leaves it, which is what makes
    a context stale.
    """

    seed: int
    _cents: dict[str, int] = field(default_factory=lambda: dict(BASE_CENTS))
    _ticks: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, elapsed_s: float) -> dict[str, int]:
        """Price in cents per symbol at that many seconds since start; never walks backwards."""
        with self._lock:
            while self._ticks < int(elapsed_s / TICK_S):
                self._ticks += 1
                self._step()
            return dict(self._cents)

    def _step(self) -> None:
        rng = random.Random(f"{self.seed}:{self._ticks}")
        for symbol, cents in self._cents.items():
            if rng.random() >= _MOVES_SHARE:
                continue
            bound = _JUMP_BPS if rng.random() < _JUMP_SHARE / _MOVES_SHARE else _STEP_BPS
            drift = round((BASE_CENTS[symbol] - cents) * _PULL)
            self._cents[symbol] = cents + cents * rng.randint(-bound, bound) // 10_000 + drift
