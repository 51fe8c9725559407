"""Moments in the words that `static/js/page.js` keeps fresh, so that a page reads the same before it runs.

The words are those of the moment in which the page was made; the full time stands in the title.
"""

from datetime import datetime

from django import template
from django.utils import timezone

register = template.Library()

URGENT_S, SOON_S = 60, 300


@register.filter
def moment(at: datetime, form: str) -> str:
    """A moment as `ago` ("3 min ago"), `age` ("3 min"), `clock` (the time of day) or `full`."""
    match form:
        case "ago":
            return f"{coarse(_seconds_since(at))} ago"
        case "age":
            return coarse(_seconds_since(at))
        case "clock":
            return f"{at:%H:%M:%S} UTC"
        case _:
            return f"{at:%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def left(at: datetime) -> str:
    """How long it is until a moment, in its two largest units."""
    seconds = -_seconds_since(at)
    return span(seconds) if seconds > 0 else "past due"


@register.filter
def urgency(at: datetime) -> str:
    """The tone of what is left."""
    seconds = -_seconds_since(at)
    return "danger" if seconds < URGENT_S else "warn" if seconds < SOON_S else "idle"


def coarse(seconds: int) -> str:
    """A duration in its largest unit."""
    seconds = max(0, seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def span(seconds: int) -> str:
    """A duration in its two largest units."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _seconds_since(at: datetime) -> int:
    return round((timezone.now() - at).total_seconds())
