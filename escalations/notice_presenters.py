"""Build what the pages show of notification routes and notices; makes no queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import reverse

from escalations.contracts import Family, NoticeState, Occasion
from escalations.models import Notice, NotificationRoute
from runtime.contracts import states
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.kernel import effects

OCCASIONS: Final[Mapping[str, str]] = {
    Occasion.OPENED: "When it opens",
    Occasion.HALF_TIME: "When half of its time has passed and nobody has claimed it",
    Occasion.HANDED_UP: "When three quarters of its time have passed: for seniors",
    Occasion.CLOSED: "When it is decided, expires or is withdrawn",
}
OCCASION_WORDS: Final[Mapping[str, str]] = {
    Occasion.OPENED: "opened",
    Occasion.HALF_TIME: "half time",
    Occasion.HANDED_UP: "handed up",
    Occasion.CLOSED: "closed",
    Occasion.TEST: "test",
}
FAMILIES: Final[Mapping[str, str]] = {
    Family.DECISION: "Decisions before a call",
    Family.OPERATIONAL: "Operational: calls that failed or are in doubt",
    Family.AGENT: "Silent agents",
}
FAMILY_WORDS: Final[Mapping[str, str]] = {
    Family.DECISION: "decisions",
    Family.OPERATIONAL: "operational",
    Family.AGENT: "silent agents",
}
STATES: Final[Mapping[str, Badge]] = {
    NoticeState.PENDING: Badge("info", "wait", "Waiting"),
    NoticeState.SENT: Badge("ok", "check", "Sent"),
    NoticeState.FAILED: Badge("danger", "high", "Failed"),
    NoticeState.DROPPED: Badge("idle", "exit", "Not sent"),
}
_RETRYING: Final = Badge("warn", "wait", "Retrying")
_ON: Final = Badge("ok", "check", "On")
_OFF: Final = Badge("idle", "cross", "Off")


@dataclass(frozen=True, slots=True)
class RouteView:
    """A route, ready to show; `where` is its address without anything that could be a secret."""

    pk: str
    name: str
    where: str
    audience: str
    on: str
    about: str
    quiet: str
    enabled: bool
    switch: Badge
    last: Badge | None
    last_error: str
    last_sent_at: datetime | None
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True)
class NoticeView:
    """A notice, ready to show; `url` is the page of its escalation, or empty for a test."""

    route: str
    occasion: str
    url: str
    about: str
    state: Badge
    tries: int
    error: str
    queued_at: datetime
    ended_at: datetime | None
    next_at: datetime | None


def routes(rows: Sequence[Any]) -> list[RouteView]:
    """Lines for the list of routes, from `notice_queries.list_routes`."""
    return [
        RouteView(
            pk=str(row.pk),
            name=row.name,
            where=masked(row),
            audience=row.audience,
            on=", ".join(OCCASION_WORDS[occasion] for occasion in row.occasions),
            about=_about(row),
            quiet=_quiet(row),
            enabled=row.enabled,
            switch=_ON if row.enabled else _OFF,
            last=None if row.last_state is None else _badge(row.last_state, tries=1),
            last_error=row.last_error or "",
            last_sent_at=row.last_sent_at,
            waiting=row.waiting,
            failed=row.failed,
        )
        for row in rows
    ]


def notices(rows: Sequence[Notice]) -> list[NoticeView]:
    """Lines for a list of notices, in the order given."""
    return [
        NoticeView(
            route=row.route.name,
            occasion=OCCASION_WORDS[row.occasion],
            url="" if row.escalation_id is None else reverse("escalation", args=[row.escalation_id]),
            about="" if row.escalation is None else f"{row.escalation.agent_id} {row.escalation.policy_kind}",
            state=_badge(row.state, tries=row.tries if row.error else 0),
            tries=row.tries,
            error=row.error,
            queued_at=row.queued_at,
            ended_at=row.ended_at,
            next_at=row.next_at if row.state == NoticeState.PENDING else None,
        )
        for row in rows
    ]


def masked(route: NotificationRoute) -> str:
    """The address of a route without user, password, path and query: each may be a secret."""
    return f"{route.scheme}://{effects.visible(route.host)}/…"


def _badge(state: str, *, tries: int) -> Badge:
    return _RETRYING if state == NoticeState.PENDING and tries else labels.badge(STATES, state)


def _about(row: NotificationRoute) -> str:
    """Which escalations it is told of, in a few words."""
    parts = [", ".join(FAMILY_WORDS[family] for family in row.families)]
    if len(row.families) == len(Family):
        parts = ["all"]
    if row.least_impact != next(iter(states.Impact)):
        parts.append(f"at least {labels.badge(labels.IMPACTS, row.least_impact).word.lower()}")
    if row.agent_id:
        parts.append(f"agent {row.agent_id}")
    if row.policy_kind:
        parts.append(f"kind {row.policy_kind}")
    return "; ".join(parts)


def _quiet(row: NotificationRoute) -> str:
    if row.quiet_from is None or row.quiet_to is None:
        return ""
    words = f"{row.quiet_from:%H:%M} to {row.quiet_to:%H:%M} {row.quiet_zone}"
    if not row.quiet_exempt:
        return words
    return f"{words}, except from {labels.badge(labels.IMPACTS, row.quiet_exempt).word.lower()}"
