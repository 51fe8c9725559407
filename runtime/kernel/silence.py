"""Silence: how long an agent has not been heard in the hours in which it is expected to be awake.

All moments are Unix milliseconds. Nothing here reads a clock: the same arguments give the same answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from runtime.contracts import timestamps
from runtime.contracts.manifest import Hours, ManifestDocument, Weekday

# A longer silence is counted from ten years ago: the work is bounded, and the answer long known.
MOST_DAYS = 3660
MINUTE_S = 60
_DAY_MS = 86_400_000
_LAST_MINUTE = "23:59"
_WEEKDAYS = tuple(Weekday)


@dataclass(frozen=True, kw_only=True)
class Silence:
    """An agent's silence at `at`; `since` is the moment from which it counts, awake time is in seconds."""

    since: datetime
    last_seen_at: datetime | None
    at: datetime
    awake_s: int
    silent_after_s: int
    hours: Hours | None


def is_past(*, since_ms: int, now_ms: int, hours: Hours | None, bound_s: int) -> bool:
    """Whether the agent has been silent for longer than it may be, in whole seconds.

    What is written of a call may be `exact_to_s` old, which is the agent's: nobody is called too early.
    A clock that was set back gives no silence.
    """
    enough_ms = (bound_s + exact_to_s(bound_s) + 1) * 1000
    if now_ms - since_ms < enough_ms:
        return False
    return awake_ms(since_ms=since_ms, until_ms=now_ms, hours=hours, enough_ms=enough_ms) >= enough_ms


def exact_to_s(bound_s: int | None) -> int:
    """How exactly the time of an agent's last call is kept: a tenth of its bound, a minute at most.

    Without a bound it is a minute. A busy agent's row is so written rarely, not at every call.
    """
    return MINUTE_S if bound_s is None else max(1, min(MINUTE_S, bound_s // 10))


def awake_ms(*, since_ms: int, until_ms: int, hours: Hours | None, enough_ms: int | None = None) -> int:
    """Milliseconds between the two moments that lie in the hours; counting may stop at `enough_ms`.

    Without hours an agent is always awake, and so it is in a zone that nobody knows: a person is then
    called too early rather than never.
    """
    since_ms = max(since_ms, until_ms - MOST_DAYS * _DAY_MS)
    zone = None if hours is None else zone_of(hours.zone)
    if hours is None or zone is None:
        return max(0, until_ms - since_ms)
    counted = 0
    for opens_ms, closes_ms in _stretches(hours, zone, since_ms=since_ms, until_ms=until_ms):
        # What is counted is not counted again, even where a change of the clocks lays two days over another.
        since_ms = max(since_ms, opens_ms)
        ends_ms = max(since_ms, min(until_ms, closes_ms))
        counted += ends_ms - since_ms
        since_ms = ends_ms
        if enough_ms is not None and counted >= enough_ms:
            break
    return counted


def lint(manifest: ManifestDocument) -> Iterator[tuple[str, str]]:
    """What of the watch cannot work: the field's name under `hours`, and the sentence."""
    hours = manifest.hours
    if hours is None:
        return
    if zone_of(hours.zone) is None:
        yield "zone", f"no time zone is called {hours.zone}; use one such as UTC or Europe/Berlin"
    if not hours.days:
        yield "days", "names no day, so the agent would never be missed; leave days out for every day"


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of this name; None where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _stretches(hours: Hours, zone: ZoneInfo, *, since_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    """When the hours open and close, day by day, over everything between the two moments."""
    opens, closes = time.fromisoformat(hours.opens), time.fromisoformat(hours.closes)
    if hours.closes == _LAST_MINUTE:
        closes = time.min
    overnight = timedelta(days=1 if closes <= opens else 0)
    # Two days before: hours may cross midnight, and a zone may have skipped a day.
    day = timestamps.from_ms(since_ms).astimezone(zone).date() - timedelta(days=2)
    last = timestamps.from_ms(until_ms).astimezone(zone).date()
    while day <= last:
        if _WEEKDAYS[day.weekday()] in hours.days:
            yield _at(day, opens, zone), _at(day + overnight, closes, zone)
        day += timedelta(days=1)


def _at(day: date, wall: time, zone: ZoneInfo) -> int:
    """A wall time as a moment: the first where clocks show it twice, the old offset where they skip it."""
    return timestamps.to_ms(datetime.combine(day, wall, tzinfo=zone))
