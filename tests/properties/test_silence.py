"""Awake seconds behave like a length: additive, never more than what has passed, and quickly counted."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts import timestamps
from runtime.contracts.manifest import Hours, Weekday
from runtime.kernel import silence

DAY_MS = 86_400_000
FIRST = timestamps.to_ms(datetime(2005, 1, 1, tzinfo=UTC))
TIMES = st.builds(lambda hour, minute: f"{hour:02d}:{minute:02d}", st.integers(0, 23), st.integers(0, 59))
HOURS = st.builds(
    Hours,
    days=st.lists(st.sampled_from(list(Weekday)), unique=True).map(tuple),
    opens=TIMES,
    closes=TIMES,
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]
    ),
)
MOMENTS = st.integers(FIRST, FIRST + silence.MOST_DAYS * DAY_MS)
NEAR = st.integers(0, 20 * DAY_MS)


@given(since=MOMENTS, first=NEAR, second=NEAR, hours=st.none() | HOURS)
def test_two_stretches_that_meet_add_up(since: int, first: int, second: int, hours: Hours | None) -> None:
    def awake(begin: int, end: int) -> int:
        return silence.awake_ms(since_ms=begin, until_ms=end, hours=hours)

    middle, until = since + first, since + first + second
    assert awake(since, middle) + awake(middle, until) == awake(since, until)


@given(since=MOMENTS, until=MOMENTS, hours=st.none() | HOURS)
def test_nobody_is_awake_for_longer_than_has_passed(since: int, until: int, hours: Hours | None) -> None:
    awake = silence.awake_ms(since_ms=since, until_ms=until, hours=hours)
    assert 0 <= awake <= max(0, until - since)


@given(since=MOMENTS, passed=NEAR, bound_s=st.integers(1, 10 * DAY_MS // 1000), hours=st.none() | HOURS)
def test_stopping_early_changes_no_answer(since: int, passed: int, bound_s: int, hours: Hours | None) -> None:
    now_ms = since + passed
    whole_s = silence.awake_ms(since_ms=since, until_ms=now_ms, hours=hours) // 1000
    past = silence.is_past(since_ms=since, now_ms=now_ms, hours=hours, bound_s=bound_s)
    assert past is (whole_s > bound_s + silence.exact_to_s(bound_s))
