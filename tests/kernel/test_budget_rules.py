"""The escalation bucket: whole numbers, never above its capacity, never refilled by a clock set back."""

import pytest

from runtime.kernel import budget_rules

AT = 1_767_323_045_000


def filled(millitokens: int = 0, *, after_ms: int = 0, per_hour: int = 3) -> int:
    """A bucket that held `millitokens` at AT, `after_ms` later."""
    return budget_rules.refill(
        millitokens=millitokens, filled_at_ms=AT, now_ms=AT + after_ms, per_hour=per_hour
    )


def test_a_bucket_that_was_never_used_is_full() -> None:
    assert budget_rules.refill(millitokens=0, filled_at_ms=None, now_ms=AT, per_hour=3) == 3_000


@pytest.mark.parametrize(
    ("after_ms", "held"),
    [(0, 0), (1_199, 0), (1_200, 1), (20 * 60_000, 1_000), (3_600_000, 3_000), (90_000_000, 3_000)],
)
def test_an_empty_bucket_fills_by_the_hour(after_ms: int, held: int) -> None:
    assert filled(after_ms=after_ms) == held


def test_a_clock_set_back_refills_nothing_and_takes_nothing() -> None:
    assert filled(1_500, after_ms=-3_600_000) == 1_500


def test_a_smaller_capacity_takes_effect_at_once() -> None:
    assert filled(3_000, per_hour=1) == 1_000
    assert filled(3_000, per_hour=0) == 0


@pytest.mark.parametrize(("millitokens", "whole"), [(0, 0), (999, 0), (1_000, 1), (2_999, 2)])
def test_a_part_of_a_token_pays_for_nothing(millitokens: int, whole: int) -> None:
    assert budget_rules.whole_tokens(millitokens) == whole
