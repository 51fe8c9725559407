"""The paper market moves by seed and time alone."""

import itertools

import pytest

from demo.market import (
    BASE_CENTS,
    CARE_FROM_S,
    CARE_S,
    CLOSED_S,
    CYCLE_S,
    SHUT_TURN_S,
    TICK_S,
    Schedule,
    Walk,
    in_care,
    market_state,
    shut_symbol,
)


def test_walks_the_same_way_for_the_same_seed() -> None:
    one, other = Walk(seed=3), Walk(seed=3)
    slow = [one.at(n * TICK_S) for n in range(200)]

    assert other.at(199 * TICK_S) == slow[-1]
    assert Walk(seed=4).at(199 * TICK_S) != slow[-1]


def test_stays_near_its_base_for_a_day() -> None:
    prices = Walk(seed=7).at(86_400)

    assert all(0.9 < prices[symbol] / base < 1.1 for symbol, base in BASE_CENTS.items())


def test_moves_a_little_and_jumps_rarely() -> None:
    walk = Walk(seed=7)
    prices = [walk.at(n * TICK_S)["AAPL"] for n in range(2_000)]
    moves = [abs(b - a) * 10_000 / a for a, b in itertools.pairwise(prices)]

    assert 0.2 < sum(move > 0 for move in moves) / len(moves) < 0.9
    assert 0 < sum(move > 20 for move in moves) / len(moves) < 0.05


@pytest.mark.parametrize(
    ("schedule", "elapsed_s", "state"),
    [
        (Schedule.OPEN, CYCLE_S - 1, "OPEN"),
        (Schedule.CLOSED, 0, "CLOSED"),
        (Schedule.CYCLE, 0, "OPEN"),
        (Schedule.CYCLE, CYCLE_S - CLOSED_S - 0.1, "OPEN"),
        (Schedule.CYCLE, CYCLE_S - CLOSED_S, "CLOSED"),
        (Schedule.CYCLE, CYCLE_S, "OPEN"),
    ],
)
def test_opens_and_closes_by_its_schedule(schedule: Schedule, elapsed_s: float, state: str) -> None:
    assert market_state(schedule=schedule, elapsed_s=elapsed_s) == state


def test_shuts_each_symbol_in_its_turn_and_none_outside_a_cycle() -> None:
    turns = [shut_symbol(schedule=Schedule.CYCLE, elapsed_s=n * SHUT_TURN_S) for n in range(7)]

    assert turns == [*BASE_CENTS, "AAPL"]
    assert shut_symbol(schedule=Schedule.OPEN, elapsed_s=0.0) is None


@pytest.mark.parametrize(
    ("elapsed_s", "down"),
    [(0.0, False), (CARE_FROM_S, True), (CARE_FROM_S + CARE_S, False), (CYCLE_S + CARE_FROM_S + 1, True)],
)
def test_looks_after_the_watchlist_once_per_cycle(elapsed_s: float, down: bool) -> None:
    assert in_care(schedule=Schedule.CYCLE, elapsed_s=elapsed_s) is down
    assert in_care(schedule=Schedule.OPEN, elapsed_s=elapsed_s) is False
