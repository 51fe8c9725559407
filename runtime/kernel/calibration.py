"""How far stated confidence agrees with what came of it: scores, curves and maps over pairs.

A pair is a confidence and whether it went well. Everything is worked out in whole numbers and fractions, and
becomes a float or a count of millionths once, at the end: the same pairs in any order give the same bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from math import isqrt
from typing import Final

from runtime.contracts.calibration import LEAST_PAIRS, WHOLE_CONFIDENCE, Knot

BINS: Final = 10
WHOLE: Final = WHOLE_CONFIDENCE
# The square of the 97.5 % quantile of the normal distribution, 1.959963984540054, for Wilson's interval.
_Z2: Final = Fraction("3.841458820694124")


def millionths(confidence: float | str | Decimal) -> int:
    """A confidence from 0 to 1 in millionths, rounded down, by its shortest decimal notation.

    Raises:
        ValueError: when it is not from 0 to 1.
    """
    value = Decimal(str(confidence))
    if not Decimal(0) <= value <= Decimal(1):
        raise ValueError("a confidence is from 0 to 1")
    return int((value * WHOLE).to_integral_value(rounding=ROUND_FLOOR))


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """What was stated, in millionths, and whether it went well."""

    stated: int
    good: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """The pairs stated from `low` (with it) to `high` (without it, but 1 is in the last), in millionths.

    `stated` is their mean confidence and `good` the share that went well, between `least` and `most` with
    95 % confidence (Wilson); all None where there are no pairs.
    """

    low: int
    high: int
    pairs: int
    stated: float | None
    good: float | None
    least: float | None
    most: float | None


@dataclass(frozen=True, slots=True)
class Parts:
    """Murphy's parts of the Brier score over the ten bins.

    brier = reliability - resolution + uncertainty + within. `within` is what the bins cannot see: the
    variance of the stated values inside a bin, less twice their covariance with what came of them. It is 0
    where all pairs of a bin state the same.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float


@dataclass(frozen=True, slots=True)
class Report:
    """What the pairs say. `ece` is over bins of equal width, `ece_mass` over bins of as many pairs each."""

    pairs: int
    good: int
    brier: float
    parts: Parts
    ece: float
    ece_mass: float
    bins: tuple[Bin, ...]
    map: tuple[Knot, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What another threshold would have changed.

    `more` is about how many more a person would have been asked; negative: about fewer. `caught` of the `bad`
    ones would have come before a person under the new threshold, `caught_before` do under the present one.
    """

    more: int
    caught: int
    caught_before: int
    bad: int


@dataclass(frozen=True, slots=True)
class Conformal:
    """Sets that hold the right option at least as often as their level, and how often they did.

    An option belongs to the set when its confidence is at least `least` (millionths); `coverage` is the share
    of the held-out cases whose right option was in the set, None without such cases.
    """

    least: int
    coverage: float | None


def report(pairs: Iterable[Pair]) -> Report | None:
    """Everything about the pairs; None below LEAST_PAIRS."""
    known = sorted(pairs)
    if len(known) < LEAST_PAIRS:
        return None
    return Report(
        pairs=len(known),
        good=sum(pair.good for pair in known),
        brier=brier(known),
        parts=brier_parts(known),
        ece=ece(known),
        ece_mass=ece_mass(known),
        bins=bins(known),
        map=isotonic(known),
    )


def brier(pairs: Sequence[Pair]) -> float:
    """The mean squared distance of what was stated from what came of it (1 good, 0 bad): 0 is best."""
    return float(_brier(pairs))


def brier_parts(pairs: Sequence[Pair]) -> Parts:
    """The Brier score taken apart over bins of equal width (Murphy 1973, with the within-bin term)."""
    count = len(pairs)
    base = _share(pairs)
    groups = [group for group in _by_width(pairs) if group]
    reliability = sum((len(g) * (_mean(g) - _share(g)) ** 2 for g in groups), Fraction(0)) / count
    resolution = sum((len(g) * (_share(g) - base) ** 2 for g in groups), Fraction(0)) / count
    uncertainty = base * (1 - base)
    within = _brier(pairs) - (reliability - resolution + uncertainty)
    return Parts(float(reliability), float(resolution), float(uncertainty), float(within))


def ece(pairs: Sequence[Pair]) -> float:
    """The expected calibration error over ten bins of equal width."""
    return _error(_by_width(pairs), len(pairs))


def ece_mass(pairs: Sequence[Pair]) -> float:
    """The same over at most ten bins of as many pairs each; pairs that state the same are never parted."""
    known = sorted(pairs)
    groups: list[list[Pair]] = [[]]
    for at, pair in enumerate(known):
        is_full = at * BINS >= len(groups) * len(known)
        if is_full and known[at - 1].stated != pair.stated:
            groups.append([])
        groups[-1].append(pair)
    return _error(groups, len(known))


def bins(pairs: Sequence[Pair]) -> tuple[Bin, ...]:
    """The reliability curve: ten bins of equal width."""
    width = WHOLE // BINS
    return tuple(_bin(at * width, (at + 1) * width, group) for at, group in enumerate(_by_width(pairs)))


def wilson(good: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; `count` is at least 1."""
    middle = (good + _Z2 / 2) / (count + _Z2)
    variance = (Fraction(good * (count - good), count) + _Z2 / 4) * _Z2 / (count + _Z2) ** 2
    half = _root(variance)
    return float(max(Fraction(0), middle - half)), float(min(Fraction(1), middle + half))


def isotonic(pairs: Iterable[Pair]) -> tuple[Knot, ...]:
    """The map that never falls and is nearest to what came of the pairs, by pool adjacent violators.

    Its values are rounded down to millionths, so that rounding never lifts one.
    """
    totals: dict[int, list[int]] = {}
    for pair in pairs:
        total = totals.setdefault(pair.stated, [0, 0])
        total[0] += pair.good
        total[1] += 1
    pools: list[tuple[int, int, int]] = []
    for stated in sorted(totals):
        good, count = totals[stated]
        first = stated
        # Shares are compared as products of whole numbers: exact, unlike a quotient.
        while pools and pools[-1][1] * count >= good * pools[-1][2]:
            first, earlier_good, earlier_count = pools.pop()
            good, count = good + earlier_good, count + earlier_count
        pools.append((first, good, count))
    return tuple(Knot(stated=first, good=good * WHOLE // count) for first, good, count in pools)


def mapped(knots: Sequence[Knot], stated: int) -> int:
    """What a map makes of a stated confidence, in millionths: the value of the last knot not above it.

    Below the first knot nothing was ever observed: it is 0.
    """
    return next((knot.good for knot in reversed(knots) if knot.stated <= stated), 0)


def what_if(pairs: Iterable[Pair], *, now: int, then: int) -> WhatIf:
    """What the threshold `then` would have done to the pairs where `now` is in force, in millionths."""
    known = list(pairs)
    bad = [pair for pair in known if not pair.good]
    return WhatIf(
        more=sum(pair.stated < then for pair in known) - sum(pair.stated < now for pair in known),
        caught=sum(pair.stated < then for pair in bad),
        caught_before=sum(pair.stated < now for pair in bad),
        bad=len(bad),
    )


def conformal(right: Sequence[int], *, level: int, held_out: Sequence[int] = ()) -> Conformal:
    """Split conformal sets at a level (both in millionths) from the confidences of the right options.

    `right` has, for each past case, the confidence that the option had that proved right; `held_out` the same
    of cases that measure the coverage. With too few cases for the level every option belongs to the set.
    """
    count = len(right)
    # The k-th greatest is a bound that a new case meets with a chance of at least k / (count + 1).
    rank = -(-(count + 1) * level // WHOLE)
    least = 0 if rank > count else sorted(right, reverse=True)[max(rank, 1) - 1]
    inside = sum(each >= least for each in held_out)
    return Conformal(least=least, coverage=float(Fraction(inside, len(held_out))) if held_out else None)


def members(options: Mapping[str, int], bound: Conformal) -> tuple[str, ...]:
    """The options that belong to the set, by name."""
    return tuple(sorted(name for name, confidence in options.items() if confidence >= bound.least))


def _by_width(pairs: Iterable[Pair]) -> list[list[Pair]]:
    groups: list[list[Pair]] = [[] for _ in range(BINS)]
    for pair in pairs:
        groups[min(pair.stated * BINS // WHOLE, BINS - 1)].append(pair)
    return groups


def _bin(low: int, high: int, group: Sequence[Pair]) -> Bin:
    if not group:
        return Bin(low, high, 0, None, None, None, None)
    least, most = wilson(sum(pair.good for pair in group), len(group))
    return Bin(low, high, len(group), float(_mean(group)), float(_share(group)), least, most)


def _error(groups: Iterable[Sequence[Pair]], count: int) -> float:
    gaps = (len(group) * abs(_mean(group) - _share(group)) for group in groups if group)
    return float(sum(gaps, Fraction(0)) / count)


def _brier(pairs: Sequence[Pair]) -> Fraction:
    squares = sum((pair.stated - WHOLE * pair.good) ** 2 for pair in pairs)
    return Fraction(squares, WHOLE * WHOLE * len(pairs))


def _mean(group: Sequence[Pair]) -> Fraction:
    return Fraction(sum(pair.stated for pair in group), WHOLE * len(group))


def _share(group: Sequence[Pair]) -> Fraction:
    return Fraction(sum(pair.good for pair in group), len(group))


def _root(value: Fraction) -> Fraction:
    """The square root, to 15 decimals."""
    scale = 10**30
    return Fraction(isqrt(value.numerator * scale // value.denominator), 10**15)


def lowered(pairs: Iterable[Pair], knots: Sequence[Knot], *, threshold: int) -> tuple[int, int]:
    """Of the pairs stated at `threshold` or above: how many a map takes below it, and how many of
    them were bad.

    What is stated below it asks a person with and without the map. All in millionths.
    """
    asked = [pair for pair in pairs if mapped(knots, pair.stated) < threshold <= pair.stated]
    return len(asked), sum(not pair.good for pair in asked)
