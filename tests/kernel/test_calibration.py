"""Scores, curves and maps over pairs of confidence and what came of it, beside scikit-learn."""

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from runtime.contracts.calibration import Knot
from runtime.kernel import calibration
from runtime.kernel.calibration import WHOLE, Conformal, Pair

EXACT = 1e-9
CONFIDENCES = st.integers(0, WHOLE)
PAIRS = st.lists(st.builds(Pair, CONFIDENCES, st.booleans()), min_size=1, max_size=80)
ENOUGH = st.lists(st.builds(Pair, CONFIDENCES, st.booleans()), min_size=30, max_size=80)


def seeded(seed: int, count: int = 400) -> list[Pair]:
    """Pairs of an overconfident agent; none on an edge of a bin, where libraries differ in the side."""
    numbers = random.Random(seed)
    stated = [numbers.randrange(1, WHOLE) for _ in range(count)]
    return [Pair(each + (each % 100_000 == 0), numbers.random() < (each / WHOLE) ** 2) for each in stated]


def arrays(pairs: list[Pair]) -> tuple[Any, Any]:
    return np.array([pair.good for pair in pairs], dtype=float), np.array(
        [pair.stated / WHOLE for pair in pairs]
    )


@pytest.mark.parametrize("seed", range(5))
def test_scores_as_scikit_learn_does(seed: int) -> None:
    pairs = seeded(seed)
    good, stated = arrays(pairs)
    assert calibration.brier(pairs) == pytest.approx(brier_score_loss(good, stated), abs=EXACT)
    shares, means = calibration_curve(good, stated, n_bins=10, strategy="uniform")
    found = [each for each in calibration.bins(pairs) if each.pairs]
    assert [each.good for each in found] == pytest.approx(list(shares), abs=EXACT)
    assert [each.stated for each in found] == pytest.approx(list(means), abs=EXACT)
    weights = [each.pairs / len(pairs) for each in found]
    expected = sum(w * abs(m - s) for w, m, s in zip(weights, means, shares, strict=True))
    assert calibration.ece(pairs) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_of_equal_masses_is_that_of_scikit_learn(seed: int) -> None:
    pairs = list({pair.stated: pair for pair in seeded(seed)}.values())
    pairs = pairs[: len(pairs) // 10 * 10]
    good, stated = arrays(pairs)
    shares, means = calibration_curve(good, stated, n_bins=10, strategy="quantile")
    expected = float(np.mean(np.abs(shares - means)))
    assert calibration.ece_mass(pairs) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_the_map_is_that_of_scikit_learn_rounded_down(seed: int) -> None:
    pairs = seeded(seed)
    good, stated = arrays(pairs)
    values = IsotonicRegression(out_of_bounds="clip").fit_transform(stated, good)
    knots = calibration.isotonic(pairs)
    for pair, value in zip(pairs, values, strict=True):
        assert calibration.mapped(knots, pair.stated) == int(value * WHOLE + EXACT)


def test_the_parts_of_a_case_worked_out_by_hand() -> None:
    pairs = [Pair(800_000, True)] * 3 + [Pair(800_000, False)] + [Pair(200_000, False)] * 4
    parts = calibration.brier_parts(pairs)
    assert calibration.brier(pairs) == pytest.approx((3 * 0.04 + 0.64 + 4 * 0.04) / 8)
    assert parts.reliability == pytest.approx((4 * 0.05**2 + 4 * 0.2**2) / 8)
    assert parts.resolution == pytest.approx((4 * 0.375**2 + 4 * 0.375**2) / 8)
    assert parts.uncertainty == pytest.approx(0.375 * 0.625)
    assert parts.within == 0


@given(PAIRS)
def test_the_parts_add_up(pairs: list[Pair]) -> None:
    parts = calibration.brier_parts(pairs)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(calibration.brier(pairs), abs=EXACT)


@given(ENOUGH, st.randoms(use_true_random=False))
def test_the_order_of_pairs_changes_nothing(pairs: list[Pair], numbers: random.Random) -> None:
    mixed = list(pairs)
    numbers.shuffle(mixed)
    assert calibration.report(mixed) == calibration.report(pairs)


@given(PAIRS)
def test_the_map_never_falls(pairs: list[Pair]) -> None:
    knots = calibration.isotonic(pairs)
    assert list(knots) == sorted(knots, key=lambda knot: knot.stated)
    values = [knot.good for knot in knots]
    assert values == sorted(values)
    assert all(0 <= value <= WHOLE for value in values)


@given(PAIRS, CONFIDENCES)
def test_a_map_gives_what_its_last_knot_gives_and_nothing_below_the_first(
    pairs: list[Pair], stated: int
) -> None:
    knots = calibration.isotonic(pairs)
    below = [knot.good for knot in knots if knot.stated <= stated]
    assert calibration.mapped(knots, stated) == (below[-1] if below else 0)


def test_a_third_is_rounded_down() -> None:
    pairs = [Pair(500_000, True), Pair(500_000, False), Pair(500_000, False)]
    assert calibration.isotonic(pairs) == (Knot(500_000, 333_333),)


@given(st.integers(1, 500), st.data())
def test_wilsons_interval_is_around_the_share(count: int, data: st.DataObject) -> None:
    good = data.draw(st.integers(0, count))
    least, most = calibration.wilson(good, count)
    assert 0 <= least <= good / count + EXACT
    assert good / count - EXACT <= most <= 1


def test_wilsons_interval_of_a_known_case() -> None:
    # Newcombe 1998, table I: 81 of 263.
    least, most = calibration.wilson(81, 263)
    assert (round(least, 4), round(most, 4)) == (0.2553, 0.3662)


def test_below_thirty_pairs_nothing_is_said() -> None:
    pairs = [Pair(900_000, True)] * 29
    assert calibration.report(pairs) is None
    found = calibration.report([*pairs, Pair(900_000, False)])
    assert found is not None
    assert (found.pairs, found.good, len(found.bins)) == (30, 29, 10)
    assert found.bins[0].stated is None
    assert found.map == (Knot(900_000, 966_666),)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [(0, 0), (1, WHOLE), (0.7, 700_000), (0.1 + 0.2, 300_000), ("0.9999999", 999_999), (1e-7, 0)],
)
def test_a_confidence_in_millionths(given_value: float | str, expected: int) -> None:
    assert calibration.millionths(given_value) == expected


@pytest.mark.parametrize("wrong", [-0.1, 1.01, "nan"])
def test_no_confidence_outside_its_range(wrong: float | str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        calibration.millionths(wrong)


def test_a_higher_threshold_asks_more_and_catches_more() -> None:
    pairs = [Pair(650_000, False), Pair(750_000, False), Pair(760_000, True), Pair(900_000, False)]
    found = calibration.what_if(pairs, now=700_000, then=800_000)
    assert (found.more, found.caught, found.caught_before, found.bad) == (2, 2, 1, 3)


@given(PAIRS, CONFIDENCES, CONFIDENCES)
def test_there_and_back_changes_nothing(pairs: list[Pair], now: int, then: int) -> None:
    there = calibration.what_if(pairs, now=now, then=then)
    back = calibration.what_if(pairs, now=then, then=now)
    assert there.more == -back.more
    assert (there.caught, there.caught_before) == (back.caught_before, back.caught)


@given(st.lists(CONFIDENCES, min_size=1, max_size=60), st.integers(1, WHOLE))
def test_a_conformal_set_holds_the_right_option_as_often_as_its_level(right: list[int], level: int) -> None:
    bound = calibration.conformal(right, level=level, held_out=right)
    inside = sum(each >= bound.least for each in right)
    assert Fraction(inside, len(right)) >= Fraction(level, WHOLE) - Fraction(1, len(right) + 1)
    assert bound.coverage == pytest.approx(inside / len(right))


def test_too_few_cases_leave_every_option_in_the_set() -> None:
    bound = calibration.conformal([900_000] * 5, level=900_000)
    assert bound == Conformal(least=0, coverage=None)
    assert calibration.members({"b": 0, "a": 5}, bound) == ("a", "b")
    tight = calibration.conformal([900_000] * 9, level=900_000)
    assert calibration.members({"b": 899_999, "a": 900_000}, tight) == ("a",)


def test_what_a_map_takes_below_a_threshold_asks_a_person_anew() -> None:
    pairs = [Pair(600_000, False), Pair(700_000, False), Pair(800_000, True), Pair(950_000, True)]
    knots = (Knot(500_000, 400_000), Knot(900_000, 980_000))
    # What was stated below it asked a person before, too.
    assert calibration.lowered(pairs, knots, threshold=700_000) == (2, 1)
    assert calibration.lowered(pairs, knots, threshold=400_000) == (0, 0)
    assert calibration.lowered(pairs, (), threshold=1) == (4, 2)
