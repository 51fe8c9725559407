"""How values are spread: each figure is one that has occurred, and nothing is rounded."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import spread
from runtime.kernel.spread import Spread


def test_nothing_has_no_spread() -> None:
    assert spread.of_values([]) is None


def test_of_one_value_all_figures_are_it() -> None:
    one = Decimal(7)
    assert spread.of_values([one]) == Spread(count=1, p50=one, p95=one, largest=one)


def test_of_a_hundred_values_the_fiftieth_and_the_ninety_fifth() -> None:
    found = spread.of_values(Decimal(value) for value in range(100, 0, -1))
    assert found == Spread(count=100, p50=Decimal(50), p95=Decimal(95), largest=Decimal(100))


@given(values=st.lists(st.integers(-(10**18), 10**18).map(Decimal), min_size=1))
def test_at_least_so_many_do_not_exceed_a_figure_and_fewer_any_smaller_value(values: list[Decimal]) -> None:
    found = spread.of_values(values)
    assert found is not None
    for figure, percent in ((found.p50, 50), (found.p95, 95), (found.largest, 100)):
        assert figure in values
        assert sum(value <= figure for value in values) * 100 >= percent * len(values)
        assert sum(value < figure for value in values) * 100 < percent * len(values)
