"""Silence is counted in the agent's hours: nights, weekends and changes of the clocks are no silence."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from runtime.contracts import timestamps
from runtime.contracts.manifest import Hours, Weekday
from runtime.kernel import silence
from tests.support import gate_cases

HOUR_MS = 3_600_000
OFFICE = Hours(
    days=(Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI),
    opens="09:00",
    closes="17:00",
    zone="Europe/Berlin",
)


def at(text: str, zone: str = "Europe/Berlin") -> int:
    """A wall time as a moment."""
    return timestamps.to_ms(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def awake_h(since: str, until: str, hours: Hours | None) -> float:
    """Hours awake between two wall times of the hours' zone."""
    zone = "UTC" if hours is None else hours.zone
    return silence.awake_ms(since_ms=at(since, zone), until_ms=at(until, zone), hours=hours) / HOUR_MS


def test_without_hours_every_second_counts() -> None:
    assert awake_h("2026-03-06T16:00", "2026-03-09T10:00", None) == 66


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [
        ("2026-03-04T10:00", "2026-03-04T11:30", 1.5),
        ("2026-03-04T16:00", "2026-03-05T10:00", 2),
        ("2026-03-06T16:00", "2026-03-09T10:00", 2),  # Friday to Monday
        ("2026-03-06T17:00", "2026-03-09T09:00", 0),
        ("2026-03-07T09:00", "2026-03-08T17:00", 0),
        ("2026-03-02T00:00", "2026-03-09T00:00", 40),
    ],
)
def test_only_the_hours_count(since: str, until: str, hours: float) -> None:
    assert awake_h(since, until, OFFICE) == hours


def test_a_night_shift_belongs_to_the_day_on_which_it_began() -> None:
    night = Hours(days=(Weekday.FRI,), opens="22:00", closes="06:00", zone="Europe/Berlin")
    assert awake_h("2026-03-06T00:00", "2026-03-08T00:00", night) == 8
    assert awake_h("2026-03-07T01:00", "2026-03-07T03:00", night) == 2
    assert awake_h("2026-03-08T22:00", "2026-03-09T06:00", night) == 0


@pytest.mark.parametrize("closes", ["23:59", "00:00"])
def test_the_last_minute_of_a_day_is_its_end(closes: str) -> None:
    whole = Hours(closes=closes, zone="UTC")
    assert awake_h("2026-03-06T00:00", "2026-03-09T00:00", whole) == 72


def test_equal_times_are_a_whole_day() -> None:
    assert awake_h("2026-03-06T00:00", "2026-03-09T00:00", Hours(opens="09:00", closes="09:00")) == 72


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_is_as_long_as_the_clocks_make_it(day: str, hours: float) -> None:
    whole = Hours(zone="Europe/Berlin")
    assert awake_h(f"{day}T00:00", f"{day}T23:59", whole) == pytest.approx(hours - 1 / 60)


def test_an_hour_that_the_clocks_skip_is_not_counted_twice() -> None:
    # The night of 29 March has no 02:45; the stretch before it and the one after it would overlap.
    odd = Hours(opens="03:00", closes="02:45", zone="Europe/Berlin")
    assert awake_h("2026-03-28T03:00", "2026-03-30T02:00", odd) <= 46


def test_a_zone_that_skipped_a_day_loses_only_that_day() -> None:
    samoa = Hours(opens="09:00", closes="17:00", zone="Pacific/Apia")
    assert awake_h("2011-12-29T00:00", "2012-01-01T00:00", samoa) == 16


def test_a_clock_set_back_gives_no_silence() -> None:
    assert awake_h("2026-03-04T12:00", "2026-03-04T10:00", OFFICE) == 0
    assert awake_h("2026-03-04T12:00", "2026-03-04T10:00", None) == 0


def test_an_unknown_zone_counts_as_always_awake() -> None:
    lost = OFFICE.model_copy(update={"zone": "Mars/Olympus"})
    since, until = at("2026-03-07T00:00"), at("2026-03-08T00:00")
    assert silence.awake_ms(since_ms=since, until_ms=until, hours=lost) == 24 * HOUR_MS


def test_a_silence_of_many_years_is_counted_from_ten_years_ago() -> None:
    until = at("2026-03-07T00:00", "UTC")
    assert silence.awake_ms(since_ms=0, until_ms=until, hours=None) == silence.MOST_DAYS * 24 * HOUR_MS


def test_counting_stops_once_it_knows_enough() -> None:
    since, until = at("2016-05-01T00:00"), at("2026-03-07T00:00")
    counted = silence.awake_ms(since_ms=since, until_ms=until, hours=OFFICE, enough_ms=HOUR_MS)
    assert counted == 8 * HOUR_MS


@pytest.mark.parametrize(
    ("bound_s", "exact_to_s"), [(None, 60), (1, 1), (19, 1), (30, 3), (600, 60), (86_400, 60)]
)
def test_the_last_call_is_kept_as_exactly_as_the_bound_asks(bound_s: int | None, exact_to_s: int) -> None:
    assert silence.exact_to_s(bound_s) == exact_to_s


@pytest.mark.parametrize(("after_s", "past"), [(0, False), (600, False), (660, False), (661, True)])
def test_the_bound_must_be_passed_by_more_than_the_call_may_be_off(after_s: int, past: bool) -> None:
    since = at("2026-03-04T10:00")
    assert silence.is_past(since_ms=since, now_ms=since + after_s * 1000, hours=OFFICE, bound_s=600) is past


def test_a_weekend_is_not_past_the_bound() -> None:
    friday, sunday, monday = at("2026-03-06T17:00"), at("2026-03-08T23:00"), at("2026-03-09T09:12")
    assert not silence.is_past(since_ms=friday, now_ms=sunday, hours=OFFICE, bound_s=600)
    assert silence.is_past(since_ms=friday, now_ms=monday, hours=OFFICE, bound_s=600)


def test_the_linter_names_what_cannot_work() -> None:
    def found(hours: Hours | None) -> list[str]:
        given = None if hours is None else hours.model_dump(mode="json")
        return [field for field, _ in silence.lint(gate_cases.manifest(hours=given))]

    assert found(None) == found(OFFICE) == []
    assert found(Hours(zone="Mars/Olympus")) == found(Hours(zone="/etc/passwd")) == ["zone"]
    assert found(Hours(zone="America")) == ["zone"]  # a folder of zones is none
    assert found(Hours(days=())) == ["days"]


def test_utc_is_a_zone() -> None:
    assert silence.zone_of("UTC") is not None
    assert datetime(2026, 1, 1, tzinfo=silence.zone_of("UTC")) == datetime(2026, 1, 1, tzinfo=UTC)
