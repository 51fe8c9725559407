"""What the page of decisions is asked by its address. What cannot be read is named, and finds nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from django.utils.dateparse import parse_date

from escalations.contracts import Action
from escalations.decision_search import DecisionFilter
from runtime.core.views import query_params

FIELDS = ("person", "action", "agent", "kind", "rule", "q", "from", "to", "solo")
_INSTANT = timedelta(microseconds=1)
_ZONE_CHARS = len("+00:00")
_WRONG_TIME = "{value} is not a date (2026-11-23) or a time in UTC (2026-11-23T14:00)."


@dataclass(frozen=True, kw_only=True)
class AskedFilter:
    """The filter with what was typed for each field, and by field what is wrong with it."""

    wanted: DecisionFilter
    typed: Mapping[str, str]
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether everything is asked for."""
        return not any(self.typed.values())


def read(given: Mapping[str, str]) -> AskedFilter:
    """Read the fields of an address."""
    typed = {name: query_params.text(given.get(name, ""), longest=200) for name in FIELDS}
    action = typed["action"].upper()
    since, until = _begin_of(typed["from"]), _end_of(typed["to"])
    wrong = {
        name: f"{name} cannot be searched for." for name, value in typed.items() if not value.isprintable()
    }
    if action and action not in Action.values():
        wrong.setdefault("action", f"{typed['action']} is not an action.")
    for name, at in (("from", since), ("to", until)):
        if typed[name] and at is None:
            wrong.setdefault(name, _WRONG_TIME.format(value=typed[name]))
    return AskedFilter(
        wanted=DecisionFilter(
            person=typed["person"],
            action=action,
            agent=typed["agent"],
            kind=typed["kind"],
            rule=typed["rule"],
            text=typed["q"],
            since=since,
            until=until,
            solo=typed["solo"] == "1",
        ),
        typed=typed,
        wrong=wrong,
    )


def _begin_of(text: str) -> datetime | None:
    return _moment(text) or _day(text)


def _end_of(text: str) -> datetime | None:
    """The moment after the time, or after the day, that was named."""
    day = _day(text)
    at, length = (_moment(text), _INSTANT) if day is None else (day, timedelta(days=1))
    try:
        return None if at is None else at + length
    except OverflowError:
        return None


def _day(text: str) -> datetime | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return None if day is None else datetime.combine(day, time(), UTC)


def _moment(text: str) -> datetime | None:
    if _day(text) is not None:
        return None
    zoned = len(text) > _ZONE_CHARS and text[-_ZONE_CHARS] == " "
    # An address that was typed has a space where its zone had a plus sign.
    return query_params.moment(f"{text[:-_ZONE_CHARS]}+{text[1 - _ZONE_CHARS :]}" if zoned else text)
