"""The desk services of the paper broker: notes, routes, listings, shares to borrow, and trades in blocks.

They keep a book of their own: nothing here moves the positions and the cash of the desk.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

# What each path is done as.
_DONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "/notes": "FILED",
        "/routes": "ROUTED",
        "/listings": "LISTED",
        "/borrows": "LOCATED",
        "/blocks/sell": "SOLD",
        "/blocks/buy": "BOUGHT",
        "/blocks/undo": "UNDONE",
        "/expenses": "PAID",
    }
)
PATHS: Final = frozenset(_DONE)
# What the lenders have of each symbol.
LENT_SHARES: Final = 900
# A sale of so many shares in one block halts the trade in blocks for a while.
LARGE_BLOCK_SHARES: Final = 5_000
HALT_S: Final = 45.0


class DeclinedError(Exception):
    """The broker will not do this work; nothing is in its book, and the same call may be made again."""


@dataclass
class Blocks:
    """Whether the exchange trades in blocks: always, but for a while after it has taken in a large one."""

    _open_from: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> str:
        """``OPEN`` or ``HALTED``, now."""
        with self._lock:
            return "HALTED" if monotonic() < self._open_from else "OPEN"

    def take_in(self, shares: object) -> None:
        """Begin a halt where a block of so many shares was large."""
        if isinstance(shares, int) and shares >= LARGE_BLOCK_SHARES:
            with self._lock:
                self._open_from = monotonic() + HALT_S


def receipt(*, path: str, params: Mapping[str, Any], blocks: Blocks) -> dict[str, Any]:
    """What one of these services says of its work; of a trade in blocks also whether they still trade.

    Raises:
        DeclinedError: the lenders have fewer shares, or blocks are not traded now.
    """
    shares = params.get("shares")
    if path == "/borrows" and isinstance(shares, int) and shares > LENT_SHARES:
        raise DeclinedError(f"the lenders have {LENT_SHARES} shares of {params.get('symbol')}")
    if path in {"/blocks/sell", "/blocks/buy"} and blocks.state() == "HALTED":
        raise DeclinedError("the exchange has halted the trade in blocks")
    done = {**params, "status": _DONE[path]}
    if path != "/blocks/sell":
        return done
    blocks.take_in(shares)
    return {**done, "blocks": blocks.state()}
