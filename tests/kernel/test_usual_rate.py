"""How many in the last hour, beside a usual hour; counted in whole numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import usual_rate
from runtime.kernel.usual_rate import HOUR_MS, Rate

NOW = 1_000 * HOUR_MS


def measure(*ages_h: float, hours: int, is_cut: bool = False) -> Rate:
    times = [NOW - int(age * HOUR_MS) for age in ages_h]
    return usual_rate.measure(times, now_ms=NOW, since_ms=NOW - hours * HOUR_MS, is_cut=is_cut)


@pytest.mark.parametrize(
    ("ages", "usual", "is_unusual"),
    [
        ([0.1] * 5 + [5] * 10, 10, True),
        ([0.1] * 4 + [5] * 1, 1, False),
        ([0.1] * 5 + [5] * 20, 20, False),
        ([0.1] * 6, 0, True),
        ([], 0, False),
    ],
)
def test_counts_the_last_hour_and_the_ten_before(ages: list[float], usual: int, is_unusual: bool) -> None:
    found = measure(*ages, hours=11)
    assert (found.usual_tenths, found.hours, found.is_unusual) == (usual, 10, is_unusual)
    assert found.last_hour == sum(age < 1 for age in ages)


def test_says_nothing_of_a_usual_hour_before_there_is_one() -> None:
    found = measure(*[0.1] * 50, hours=1)
    assert (found.usual_tenths, found.is_unusual, found.is_least) == (None, False, False)
    cut = usual_rate.measure([NOW] * 9, now_ms=NOW, since_ms=NOW - 1, is_cut=True)
    assert (cut.last_hour, cut.is_least) == (9, True)


@given(st.lists(st.integers(0, 200 * HOUR_MS), max_size=40), st.integers(2, 200))
def test_every_one_is_counted_once_or_lies_before_the_count(ages: list[int], hours: int) -> None:
    times, since = [NOW - age for age in ages], NOW - hours * HOUR_MS
    found = usual_rate.measure(times, now_ms=NOW, since_ms=since, is_cut=False)
    assert found.usual_tenths is not None
    earlier = sum(HOUR_MS <= age <= hours * HOUR_MS for age in ages)
    assert abs(found.usual_tenths * found.hours - earlier * 10) * 2 <= found.hours
    assert found.last_hour == sum(age < HOUR_MS for age in ages)
