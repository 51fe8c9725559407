"""The basket trader: sells one holding and buys another, in two steps of which the second may be declined."""

import random
from typing import Any, ClassVar, Final

from demo import proposals
from demo.agent_base import Persona
from demo.client import Context
from demo.market import BASE_CENTS

_FEWEST: Final = 2
_MOST: Final = 5
_WINDOW_S: Final = 60
_SLIPPAGE_BPS: Final = 80


class Switcher(Persona):
    """Moves money between two symbols; what the broker declines half way, the runtime takes back."""

    pace_s: ClassVar[tuple[float, float]] = (12.0, 20.0)

    def turn(self) -> None:
        """One switch, small enough to run by itself."""
        dfid, context = self.begin(trigger="signal: relative strength")
        self.settle(self.propose(dfid, switch(context=context, rng=self.rng)))


def switch(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """A ``SWITCH_HOLDING`` of a few shares for about as many cents of another symbol."""
    weaker, stronger = rng.sample(proposals.SYMBOLS, 2)
    sell_quantity = rng.randint(_FEWEST, _MOST)
    buy_quantity = max(1, sell_quantity * _cents(context, weaker) // _cents(context, stronger))
    return proposals.body_of(
        kind="SWITCH_HOLDING",
        context=context,
        params={
            "sell_symbol": weaker,
            "sell_quantity": sell_quantity,
            "buy_symbol": stronger,
            "buy_quantity": buy_quantity,
        },
        constraints={"validity_window_sec": _WINDOW_S, "max_slippage_bps": _SLIPPAGE_BPS},
        explain=f"{stronger} has been stronger than {weaker} this week; the money is better there.",
        confidence=round(rng.uniform(0.8, 0.95), 2),
    )


def _cents(context: Context, symbol: str) -> int:
    price = context.fact(f"price.{symbol}")
    return price if isinstance(price, int) and price > 0 else BASE_CENTS[symbol]
