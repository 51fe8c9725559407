"""The proposals of a burst, one shape per policy kind; each must be acceptable as it stands."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from demo import proposals
from demo.client import Context

Shape = Callable[[Context, random.Random], dict[str, Any]]


def _place_order(context: Context, rng: random.Random) -> dict[str, Any]:
    return {
        "policy_kind": "PLACE_ORDER",
        "params": {"symbol": rng.choice(proposals.SYMBOLS), "quantity": rng.randint(1, 9)},
        "execution_constraints": {"validity_window_sec": 300},
        "context_ref": context.ref,
        "confidence": 0.95,
        "explain": "One order of a burst.",
    }


def _small_step(context: Context, rng: random.Random) -> dict[str, Any]:
    body = proposals.small(context=context, rng=rng)
    # a burst may wait for its turn: the widest slippage keeps a ticking price from making it stale
    return {**body, "execution_constraints": {"validity_window_sec": 300, "max_slippage_bps": 1000}}


SHAPES: Final[Mapping[str, Shape]] = {
    "PLACE_ORDER": _place_order,
    "ADJUST_POSITION": _small_step,
    "UPDATE_WATCHLIST": lambda context, rng: proposals.watch(context=context, rng=rng),
}
