"""Moments: whole milliseconds, UTC, exact in both directions."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from runtime.contracts import timestamps


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC), 1_767_323_045_678),
        (datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), 2_147_483_648_000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC), -1),
        (datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2))), 1_767_323_045_000),
    ],
)
def test_milliseconds_are_rounded_down(moment: datetime, ms: int) -> None:
    assert timestamps.to_ms(moment) == ms


@pytest.mark.parametrize("ms", [0, 1, 1_767_323_045_678, 253_402_300_799_999])
def test_milliseconds_come_back_exactly(ms: int) -> None:
    assert timestamps.to_ms(timestamps.from_ms(ms)) == ms


def test_text_has_milliseconds_and_z() -> None:
    assert timestamps.iso(timestamps.from_ms(1_767_323_045_000)) == "2026-01-02T03:04:05.000Z"
    assert timestamps.iso(timestamps.from_ms(1_767_323_045_678)) == "2026-01-02T03:04:05.678Z"


def test_expressions_see_utc_and_count_days_from_monday() -> None:
    assert timestamps.named(1_767_323_045_000) == {
        "epoch_ms": 1_767_323_045_000,
        "iso": "2026-01-02T03:04:05.000Z",
        "hour": 3,
        "minute": 4,
        "weekday": 5,
    }
    assert timestamps.named(1_767_495_845_000)["weekday"] == 7
