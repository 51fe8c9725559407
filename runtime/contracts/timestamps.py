"""A moment as expressions see it, and as the wire writes it. Always UTC, always whole milliseconds."""

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(moment: datetime) -> int:
    """Unix milliseconds of an aware time, rounded down; exact, since no float is in between."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: int) -> datetime:
    """The aware UTC time of Unix milliseconds."""
    return _EPOCH + timedelta(milliseconds=ms)


def iso(moment: datetime) -> str:
    """RFC 3339 of an aware time, in UTC with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def named(ms: int) -> dict[str, Any]:
    """The name `time` of expressions: epoch_ms, iso, hour, minute, weekday (Monday is 1)."""
    moment = from_ms(ms)
    return {
        "epoch_ms": ms,
        "iso": iso(moment),
        "hour": moment.hour,
        "minute": moment.minute,
        "weekday": moment.isoweekday(),
    }
