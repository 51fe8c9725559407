"""The escalation bucket over any sequence of waits, clocks set back, spends and changes of capacity."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import budget_rules

HOUR_MS = 3_600_000
moments = st.integers(0, 2**41)
rates = st.integers(0, 3_600)


@given(held=st.integers(0, 10**7), filled_at_ms=st.one_of(st.none(), moments), now_ms=moments, per_hour=rates)
def test_a_bucket_is_never_above_its_capacity_nor_negative(
    held: int, filled_at_ms: int | None, now_ms: int, per_hour: int
) -> None:
    found = budget_rules.refill(millitokens=held, filled_at_ms=filled_at_ms, now_ms=now_ms, per_hour=per_hour)
    assert 0 <= found <= per_hour * budget_rules.MILLI


@given(
    steps=st.lists(st.tuples(st.integers(-HOUR_MS, HOUR_MS), st.booleans()), max_size=60),
    per_hour=rates,
)
def test_no_sequence_of_waits_and_spends_pays_for_more_than_time_has_brought(
    steps: list[tuple[int, bool]], per_hour: int
) -> None:
    held, filled_at_ms, now_ms, spent, latest = 0, None, 10 * HOUR_MS, 0, 10 * HOUR_MS
    for wait_ms, wants in steps:
        now_ms += wait_ms
        latest = max(latest, now_ms)
        found = budget_rules.refill(
            millitokens=held, filled_at_ms=filled_at_ms, now_ms=now_ms, per_hour=per_hour
        )
        if wants and budget_rules.whole_tokens(found) >= 1:
            held, spent = found - budget_rules.MILLI, spent + 1
            # As the runtime keeps it: never earlier than it was.
            filled_at_ms = now_ms if filled_at_ms is None else max(filled_at_ms, now_ms)
        assert held >= 0
    brought = per_hour * (1 + (latest - 10 * HOUR_MS) / HOUR_MS)
    assert spent <= brought + 1e-9


@given(held=st.integers(0, 10**7), filled_at_ms=moments, waits=st.tuples(moments, moments), per_hour=rates)
def test_more_time_never_means_fewer_tokens(
    held: int, filled_at_ms: int, waits: tuple[int, int], per_hour: int
) -> None:
    less, more = sorted(waits)
    found = [
        budget_rules.refill(
            millitokens=held, filled_at_ms=filled_at_ms, now_ms=filled_at_ms + wait, per_hour=per_hour
        )
        for wait in (less, more)
    ]
    assert found[0] <= found[1]
