"""How pages write moments and durations: the words that `static/js/page.js` keeps fresh.

They are those of the moment in which the page was made; the full time stands in the title.
"""

from datetime import datetime, timedelta

from django.utils import timezone

URGENT, SOON = timedelta(minutes=1), timedelta(minutes=5)
_SECOND, _DAY_S, _HOUR_S, _MINUTE_S = timedelta(seconds=1), 86_400, 3600, 60


def moment(at: datetime, form: str) -> str:
    """A moment as `ago` ("3 min ago"), `age` ("3 min"), `clock` (the time of day) or `full`."""
    match form:
        case "ago":
            return f"{age(timezone.now() - at)} ago"
        case "age":
            return age(timezone.now() - at)
        case "clock":
            return f"{at:%H:%M:%S} UTC"
        case _:
            return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def stamp(at: datetime | None) -> str:
    """A moment as programs read it, in the time zone of the console; empty where there is none."""
    if at is None:
        return ""
    return (timezone.localtime(at) if timezone.is_aware(at) else at).isoformat()


def left(at: datetime) -> str:
    """How long it is until a moment, in its two largest units."""
    seconds = round((at - timezone.now()) / _SECOND)
    return _whole(seconds) if seconds > 0 else "past due"


def urgency(at: datetime) -> str:
    """The tone of what is left until a moment."""
    until = at - timezone.now()
    return "danger" if until < URGENT else "warn" if until < SOON else "idle"


def age(past: timedelta) -> str:
    """A duration in its largest unit."""
    seconds = max(0, round(past / _SECOND))
    for unit, length in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def span(delta: timedelta) -> str:
    """A duration in its two largest units; below ten seconds with a fraction."""
    if delta < _SECOND:
        return f"{max(0, delta // timedelta(milliseconds=1))} ms"
    return f"{delta / _SECOND:.1f} s" if delta < timedelta(seconds=10) else _whole(delta // _SECOND)


def _whole(seconds: int) -> str:
    minutes, rest = divmod(seconds, _MINUTE_S)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
