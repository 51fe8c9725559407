"""Build what the pages show of notification routes and notices; makes no queries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import reverse

from escalations.contracts import OF_ESCALATIONS, OF_INCIDENTS, Family, NoticeState, Occasion
from escalations.models import Escalation, Notice, NotificationRoute
from runtime.contracts import states
from runtime.contracts.incident import Severity
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.execution.models import HumanTask
from runtime.incidents.models import Incident
from runtime.kernel import effects

OCCASIONS: Final[Mapping[str, str]] = {
    Occasion.OPENED: "When it opens",
    Occasion.HALF_TIME: "When half of its time has passed and nobody has claimed it",
    Occasion.HANDED_UP: "When three quarters of its time have passed: for seniors",
    Occasion.CLOSED: "When it is decided, expires or is withdrawn",
}
INCIDENT_OCCASIONS: Final[Mapping[str, str]] = {
    Occasion.INCIDENT_OPENED: "When it opens",
    Occasion.INCIDENT_RAISED: "When its severity is raised",
    Occasion.INCIDENT_CLOSED: "When it is closed",
}
TASK_OCCASIONS: Final[Mapping[str, str]] = {Occasion.TASK_OPENED: "When it opens"}
OCCASION_WORDS: Final[Mapping[str, str]] = {
    Occasion.OPENED: "opened",
    Occasion.HALF_TIME: "half time",
    Occasion.HANDED_UP: "handed up",
    Occasion.CLOSED: "closed",
    Occasion.INCIDENT_OPENED: "incident opened",
    Occasion.INCIDENT_RAISED: "severity raised",
    Occasion.INCIDENT_CLOSED: "incident closed",
    Occasion.TASK_OPENED: "task opened",
    Occasion.TEST: "test",
}
FAMILIES: Final[Mapping[str, str]] = {
    Family.DECISION: "Decisions before a call",
    Family.OPERATIONAL: "Operational: calls that failed or are in doubt",
    Family.AGENT: "Silent agents",
    Family.INTERRUPT: "Interrupted workflows",
}
FAMILY_WORDS: Final[Mapping[str, str]] = {
    Family.DECISION: "decisions",
    Family.OPERATIONAL: "operational",
    Family.AGENT: "silent agents",
    Family.INTERRUPT: "interrupted workflows",
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
    """A route, ready to show; `where` is its address without anything that could be a secret.

    `on` and `about` are empty where it is told of no escalation, `incidents_on` and `incidents` where of no
    incident, `tasks` where of no task.
    """

    pk: str
    name: str
    where: str
    audience: str
    on: str
    about: str
    incidents: str
    incidents_on: str
    tasks: str
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
    """A notice, ready to show; `url` is the page of what it tells of, or empty for a test."""

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
            on=_words_of(row, OF_ESCALATIONS),
            about=_about(row),
            incidents=_incidents(row),
            incidents_on=_words_of(row, OF_INCIDENTS),
            tasks=_tasks(row),
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
            url=_url(row),
            about=_told_of(row),
            state=_badge(row.state, tries=row.tries if row.error else 0),
            tries=row.tries,
            error=row.error,
            queued_at=row.queued_at,
            ended_at=row.ended_at,
            next_at=row.next_at if row.state == NoticeState.PENDING else None,
        )
        for row in rows
    ]


def severity_words(severity: str) -> str:
    """A least severity, as it is chosen."""
    return severity if severity == Severity.SEV1 else f"{severity} and worse"


def masked(route: NotificationRoute) -> str:
    """The address of a route without user, password, path and query: each may be a secret."""
    return f"{route.scheme}://{effects.visible(route.host)}/…"


def _badge(state: str, *, tries: int) -> Badge:
    return _RETRYING if state == NoticeState.PENDING and tries else labels.badge(STATES, state)


def _url(row: Notice) -> str:
    if row.incident_id is not None:
        return reverse("incident", args=[row.incident_id])
    if row.task_id is not None:
        return reverse("task", args=[row.task_id])
    return "" if row.escalation_id is None else reverse("escalation", args=[row.escalation_id])


def _told_of(row: Notice) -> str:
    """What a notice tells of, in a few words; empty for a test."""
    match row.about:
        case None:
            return ""
        case Escalation() as escalation:
            return f"{escalation.agent_id} {escalation.policy_kind}"
        case Incident() as incident:
            return f"{row.severity or incident.severity} {labels.visible_lines(incident.title)}"
        case HumanTask() as task:
            return f"{task.intent.flow.agent.agent_id} {task.step}"


def _words_of(row: NotificationRoute, some: Collection[Occasion]) -> str:
    return ", ".join(OCCASION_WORDS[occasion] for occasion in row.occasions if occasion in some)


def _incidents(row: NotificationRoute) -> str:
    """Which incidents it is told of, in a few words; empty for none."""
    if not _words_of(row, OF_INCIDENTS):
        return ""
    return "all" if row.least_severity == Severity.SEV4 else severity_words(row.least_severity)


def _tasks(row: NotificationRoute) -> str:
    """Which tasks it is told of, in a few words; empty for none."""
    if not row.on_task_opened:
        return ""
    return f"of the group {row.task_group}" if row.task_group else "all"


def _about(row: NotificationRoute) -> str:
    """Which escalations it is told of, in a few words; empty for none."""
    if not _words_of(row, OF_ESCALATIONS):
        return ""
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
    exempt = []
    if row.quiet_exempt:
        exempt.append(f"from {labels.badge(labels.IMPACTS, row.quiet_exempt).word.lower()}")
    if row.quiet_exempt_severity and _words_of(row, OF_INCIDENTS):
        exempt.append(f"incidents of {severity_words(row.quiet_exempt_severity)}")
    return f"{words}, except {' and '.join(exempt)}" if exempt else words
