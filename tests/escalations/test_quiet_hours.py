"""Quiet hours: past midnight, in other zones, and on the days on which clocks are changed."""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from escalations.quiet_hours import QuietHours

NIGHT = QuietHours(start=time(22), end=time(7), zone=ZoneInfo("UTC"))
LUNCH = QuietHours(start=time(12), end=time(13), zone=ZoneInfo("UTC"))
BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        (NIGHT, "2026-03-01T21:59:59", None),
        (NIGHT, "2026-03-01T22:00:00", "2026-03-02T07:00:00"),
        (NIGHT, "2026-03-02T06:59:59", "2026-03-02T07:00:00"),
        (NIGHT, "2026-03-02T07:00:00", None),
        (LUNCH, "2026-03-01T11:59:59", None),
        (LUNCH, "2026-03-01T12:00:00", "2026-03-01T13:00:00"),
        (LUNCH, "2026-03-01T13:00:00", None),
    ],
)
def test_the_end_of_the_hours_that_a_moment_lies_in(hours: QuietHours, now: str, end: str | None) -> None:
    assert hours.ends_at(at(now)) == (None if end is None else at(end))


def test_the_times_are_those_of_the_zone() -> None:
    hours = QuietHours(start=time(22), end=time(7), zone=BERLIN)
    assert hours.ends_at(at("2026-01-10T20:59:00")) is None
    assert hours.ends_at(at("2026-01-10T21:00:00")) == at("2026-01-11T06:00:00")
    assert hours.ends_at(at("2026-07-10T20:00:00")) == at("2026-07-11T05:00:00"), "summer time"


@pytest.mark.parametrize(
    "now",
    [
        "2026-03-29T00:45:00",  # 01:45; 02:30 does not exist on this day
        "2026-10-25T00:15:00",  # 02:15 for the first time
        "2026-10-25T01:15:00",  # 02:15 for the second time
    ],
)
def test_the_end_is_after_the_moment_where_clocks_are_changed(now: str) -> None:
    hours = QuietHours(start=time(1), end=time(2, 30), zone=BERLIN)
    end = hours.ends_at(at(now))
    assert end is not None
    assert end > at(now)
    assert hours.ends_at(end) is None, "it is not quiet again at once"
