"""Compute budgets in whole numbers: what is passed, what is left, and money without floats."""

import pytest

from runtime.kernel import budget_rules
from runtime.kernel.budget_rules import Overspent, Spent
from tests.support import gate_cases

OPENED_MS = gate_cases.NOW_MS - 5_000


def over(**fields: int | None) -> tuple[Overspent, ...]:
    return budget_rules.overspent(
        gate_cases.compute(**fields), opened_at_ms=OPENED_MS, now_ms=gate_cases.NOW_MS
    )


def test_a_bucket_says_when_it_holds_more() -> None:
    assert budget_rules.filled_in_ms(millitokens=2_500, to=3_000, per_hour=3) == 600_000
    assert budget_rules.filled_in_ms(millitokens=2_999, to=3_000, per_hour=7) == 515
    assert budget_rules.filled_in_ms(millitokens=3_000, to=3_000, per_hour=3) is None
    assert budget_rules.filled_in_ms(millitokens=0, to=1_000, per_hour=0) is None


def test_all_of_a_budget_may_be_used() -> None:
    assert over(tokens_used=1_000, cost_used_micros=500_000, tool_calls_used=10) == ()


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"tokens_used": 1_001}, Overspent(Spent.TOKENS, 1_001, 1_000)),
        ({"cost_used_micros": 500_001}, Overspent(Spent.COST, 500_001, 500_000)),
        ({"tool_calls_used": 11}, Overspent(Spent.TOOL_CALLS, 11, 10)),
        ({"ends_at_ms": gate_cases.NOW_MS}, Overspent(Spent.TIME, 5, 5)),
    ],
)
def test_one_more_than_the_cap_is_too_much(fields: dict[str, int], found: Overspent) -> None:
    assert over(**fields) == (found,)


def test_without_caps_nothing_is_too_much() -> None:
    free = {"tokens_cap": None, "cost_cap_micros": None, "tool_calls_cap": None, "ends_at_ms": None}
    assert over(**free, tokens_used=10**12) == ()
    assert budget_rules.left(gate_cases.compute(**free)) == {}
    assert budget_rules.left(None) == {}


def test_what_is_left_is_never_under_nothing() -> None:
    left = budget_rules.left(gate_cases.compute(tokens_used=1_200, cost_used_micros=1))
    assert left == {"tokens_left": 0, "cost_left_micros": 499_999, "tool_calls_left": 10}


@pytest.mark.parametrize(
    ("text", "micros", "shown"),
    [
        ("0", 0, "0.00"),
        ("0.5", 500_000, "0.50"),
        ("12.000001", 12_000_001, "12.000001"),
        ("999999999.999999", 999_999_999_999_999, "999999999.999999"),
    ],
)
def test_dollars_are_whole_millionths(text: str, micros: int, shown: str) -> None:
    assert budget_rules.micros(text) == micros
    assert budget_rules.dollars(micros) == shown
