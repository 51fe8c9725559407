"""How values of the past are spread: what a person compares a limit with before changing it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

_MEDIAN, _NEARLY_ALL = 50, 95


@dataclass(frozen=True, slots=True)
class Spread:
    """Of `count` values the median, the 95th percentile and the largest: each one that has occurred."""

    count: int
    p50: Decimal
    p95: Decimal
    largest: Decimal


def of_values(values: Iterable[Decimal]) -> Spread | None:
    """Return the spread of the values; None where there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(
        count=len(ordered),
        p50=_nearest_rank(ordered, _MEDIAN),
        p95=_nearest_rank(ordered, _NEARLY_ALL),
        largest=ordered[-1],
    )


def _nearest_rank(ordered: Sequence[Decimal], percent: int) -> Decimal:
    """The smallest value that at least so many of a hundred do not exceed; whole numbers, so no rounding."""
    return ordered[(len(ordered) * percent - 1) // 100]
