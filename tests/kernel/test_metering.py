"""What an answer says of the tokens and the money that its call has used."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.kind_steps import Meter
from runtime.kernel.metering import MOST, Metered, measure

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
METER = Meter(tokens="answer.body.usage.total_tokens", cost_usd="answer.body.usage.cost")


def read(tokens: Any, cost: Any) -> Metered:
    return measure(METER, status_code=200, body={"usage": {"total_tokens": tokens, "cost": cost}})


@pytest.mark.parametrize(
    ("tokens", "cost", "found"),
    [
        (840, "0.0067", (840, 6700)),
        (840.0, 0.0067, (840, 6700)),
        ("12", 2, (12, 2_000_000)),
        (0.1, "0.0000001", (1, 1)),
        (0, 0, (0, 0)),
        ("1e-999999", "1e-999999", (1, 1)),
        (10**12, 1_000_000, (10**12, 10**12)),
    ],
)
def test_amounts_are_read_and_rounded_up(tokens: Any, cost: Any, found: tuple[int, int]) -> None:
    assert read(tokens, cost) == Metered(tokens=found[0], cost_micros=found[1])


@pytest.mark.parametrize(
    "odd", [-1, "many", True, None, [1], "NaN", "Infinity", "1e400", "1e999999", 10**12 + 1, "9e18", ""]
)
def test_what_is_no_amount_is_named_and_counts_nothing(odd: Any) -> None:
    assert read(odd, "0.5") == Metered(cost_micros=500_000, unread=("tokens",))
    assert read(5, odd) == Metered(tokens=5, unread=("cost_usd",))


def test_more_dollars_than_are_counted_are_unread() -> None:
    assert read(0, 1_000_001) == Metered(unread=("cost_usd",))


def test_an_answer_without_usage_says_nothing() -> None:
    assert measure(METER, status_code=None, body={}) == Metered(unread=("tokens", "cost_usd"))


def test_a_meter_may_read_one_of_both_and_the_status() -> None:
    meter = Meter(tokens="answer.status_code == 200 ? 7 : 0")
    assert measure(meter, status_code=200, body={}) == Metered(tokens=7)
    assert measure(meter, status_code=None, body={}) == Metered()


@given(VALUES, VALUES)
def test_every_answer_has_an_amount_of_nothing_or_more(tokens: Any, cost: Any) -> None:
    found = read(tokens, cost)
    assert 0 <= found.tokens <= MOST
    assert 0 <= found.cost_micros <= MOST
