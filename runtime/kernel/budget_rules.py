"""The two budgets (DIR paper, 9.3): escalation tokens of an agent, compute of a flow. All numbers are whole:
thousandths of a token, micro-dollars, milliseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

from runtime.contracts.facts import ComputeFacts

MILLI = 1000
HOUR_MS = 3_600_000
MICRO = 1_000_000
DECIMALS = 6
CENTS_DECIMALS = 2


def refill(*, millitokens: int, filled_at_ms: int | None, now_ms: int, per_hour: int) -> int:
    """Thousandths of a token in the bucket at `now_ms`; a bucket that was never used is full.

    The capacity is one hour's tokens. A clock that went back refills nothing.
    """
    capacity = per_hour * MILLI
    if filled_at_ms is None:
        return capacity
    elapsed_ms = max(0, now_ms - filled_at_ms)
    return min(capacity, millitokens + elapsed_ms * capacity // HOUR_MS)


def filled_in_ms(*, millitokens: int, to: int, per_hour: int) -> int | None:
    """Milliseconds until a bucket that holds `millitokens` holds `to`; None where it does, or never will."""
    missing = to - millitokens
    if missing <= 0 or per_hour == 0:
        return None
    return -(-missing * HOUR_MS // (per_hour * MILLI))


def whole_tokens(millitokens: int) -> int:
    """How many escalations the bucket pays for."""
    return millitokens // MILLI


class Spent(StrEnum):
    """What of a compute budget is used up."""

    TOKENS = "tokens"
    COST = "cost"
    TOOL_CALLS = "tool calls"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Overspent:
    """A bound that was passed: what was used against what was allowed, in the bound's own unit."""

    what: Spent
    used: int
    cap: int


def overspent(compute: ComputeFacts, *, opened_at_ms: int, now_ms: int) -> tuple[Overspent, ...]:
    """The bounds of a flow's compute budget that are passed: using all of it is allowed, more is not."""
    found = [
        Overspent(what, used, cap)
        for what, used, cap in (
            (Spent.TOKENS, compute.tokens_used, compute.tokens_cap),
            (Spent.COST, compute.cost_used_micros, compute.cost_cap_micros),
            (Spent.TOOL_CALLS, compute.tool_calls_used, compute.tool_calls_cap),
        )
        if cap is not None and used > cap
    ]
    if compute.ends_at_ms is not None and now_ms >= compute.ends_at_ms:
        seconds = (now_ms - opened_at_ms) // MILLI
        found.append(Overspent(Spent.TIME, seconds, (compute.ends_at_ms - opened_at_ms) // MILLI))
    return tuple(found)


def left(compute: ComputeFacts | None) -> dict[str, int]:
    """What is left of each cap, never under nothing, as rules read it; what has no cap is not there."""
    if compute is None:
        return {}
    caps = (
        ("tokens_left", compute.tokens_cap, compute.tokens_used),
        ("cost_left_micros", compute.cost_cap_micros, compute.cost_used_micros),
        ("tool_calls_left", compute.tool_calls_cap, compute.tool_calls_used),
    )
    return {name: max(0, cap - used) for name, cap, used in caps if cap is not None}


def micros(dollars: str) -> int:
    """A decimal string of dollars with at most six decimals as whole micro-dollars, without a float."""
    whole, _, decimals = dollars.partition(".")
    return int(whole) * MICRO + int(decimals.ljust(DECIMALS, "0") or "0")


def dollars(amount_micros: int) -> str:
    """Micro-dollars as a decimal string with at least two decimals."""
    whole, rest = divmod(amount_micros, MICRO)
    decimals = f"{rest:0{DECIMALS}d}".rstrip("0")
    return f"{whole}.{decimals.ljust(CENTS_DECIMALS, '0')}"
