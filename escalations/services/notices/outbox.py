"""Writing notices: with the entry that causes them, or by the sweeper when time does. No network here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Q

from escalations.contracts import NoticeState, Occasion, State
from escalations.models import Escalation, Notice, NotificationRoute
from escalations.quiet_hours import QuietHours
from runtime.contracts.incident import Severity
from runtime.contracts.states import Impact
from runtime.core import clock, transactions
from runtime.core.ports import IncidentNews
from runtime.execution.models import HumanTask
from runtime.incidents.models import Incident

# What a notice can tell of.
Told = Escalation | Incident | HumanTask
# Which part of the time until the deadline has passed.
SHARES: Final = {Occasion.HALF_TIME: 0.5, Occasion.HANDED_UP: 0.75}


def queue(row: Escalation, *, occasion: Occasion, at: datetime) -> None:
    """Queue the notices of an escalation, in the transaction of its entry; one query where nobody is told."""
    _queue(row, occasion, at)


def queue_incident(*, incident: Incident, news: IncidentNews, at: datetime) -> None:
    """Queue the notices of an incident, in the transaction of its entry.

    One query where nobody is told, two for a raise.
    """
    made = _queue(incident, Occasion(f"INCIDENT_{news}"), at)
    if news == "RAISED":
        # Quiet hours may no longer hold back its opening, where no notice of the raise takes its place.
        waiting = Notice.objects.filter(incident=incident, state=NoticeState.PENDING, tries=0)
        waiting.exclude(route__in=[notice.route_id for notice in made]).update(next_at=at)


def queue_task(*, task: HumanTask, at: datetime) -> None:
    """Queue the notices of a task, in the transaction that opens it; one query where nobody is told."""
    _queue(task, Occasion.TASK_OPENED, at)


def withdraw(row: Escalation, *, occasion: Occasion) -> None:
    """Take back what is queued of an occasion and nobody was told, so that it can be announced anew."""
    Notice.objects.filter(escalation=row, occasion=occasion, state=NoticeState.PENDING).delete()


def queue_due() -> int:
    """Queue what the clock makes due of open escalations; returns how many notices. One query without routes.

    Where an escalation has no deadline, DIR_ESCALATION_SLA_S counts: what waits without end is not forgotten.
    A route is told of the later of two occasions that have both passed, and of none from before it was on.
    """
    wanted = Q(on_half_time=True) | Q(on_handed_up=True)
    routes = list(NotificationRoute.objects.filter(wanted, enabled=True))
    return _queue_due(routes) if routes else 0


def _queue_due(routes: Sequence[NotificationRoute]) -> int:
    at = clock.now()
    is_paused = Q(waiting_until__isnull=False, waiting_until__gte=at)
    rows = Escalation.objects.filter(state=State.OPEN).exclude(is_paused)
    told = set(
        Notice.objects.filter(escalation__state=State.OPEN, occasion__in=SHARES).values_list(
            "route_id", "escalation_id", "occasion"
        )
    )
    made: list[Notice] = []
    for row in rows:
        for route in routes:
            occasion = _due(route, row, at)
            if occasion is None or not concerns(route, row):
                continue
            if (route.pk, row.pk, occasion.value) not in told:
                made.append(_notice(route, row, occasion, at))
    # Read without a lock: one that is closed meanwhile is dropped before it is sent.
    return transactions.retry_on_conflict(partial(_write, made)) if made else 0


def sendable_at(route: NotificationRoute, row: Told | None, *, at: datetime) -> datetime:
    """When a notice may be sent at the earliest: now, or at the end of the route's quiet hours."""
    if row is None or route.quiet_from is None or route.quiet_to is None:
        return at
    if _is_exempt(route, row):
        return at
    hours = QuietHours(start=route.quiet_from, end=route.quiet_to, zone=ZoneInfo(route.quiet_zone))
    return hours.ends_at(at) or at


def concerns(route: NotificationRoute, row: Told) -> bool:
    """Whether a route is told of an escalation, an incident or a task at all, on whichever occasion."""
    if isinstance(row, HumanTask):
        return route.tenant == row.tenant and route.task_group in {"", row.group}
    if isinstance(row, Incident):
        least = Severity(route.least_severity)
        return route.tenant == row.tenant and Severity(row.severity).is_at_least(least)
    return (
        route.tenant == row.tenant
        and row.family in route.families
        and row.impact_rank >= Impact(route.least_impact).rank
        and route.agent_id in {"", row.agent_id}
        and route.policy_kind in {"", row.policy_kind}
    )


def _queue(row: Told, occasion: Occasion, at: datetime) -> list[Notice]:
    """Write the notices of an occasion to the routes that are told of it, and say which."""
    routes = NotificationRoute.objects.of(row.tenant).filter(enabled=True, **{f"on_{occasion.lower()}": True})
    made = [_notice(route, row, occasion, at) for route in routes if concerns(route, row)]
    _write(made)
    return made


def _is_exempt(route: NotificationRoute, row: Told) -> bool:
    """Whether it is bad enough to be sent in the quiet hours of a route; a task never is."""
    if isinstance(row, HumanTask):
        return False
    if isinstance(row, Incident):
        least = route.quiet_exempt_severity
        return bool(least) and Severity(row.severity).is_at_least(Severity(least))
    return bool(route.quiet_exempt) and row.impact_rank >= Impact(route.quiet_exempt).rank


def _due(route: NotificationRoute, row: Escalation, at: datetime) -> Occasion | None:
    """The occasion that the clock has reached, the latest first."""
    ends_at = row.deadline_at or row.opened_at + timedelta(seconds=settings.DIR_ESCALATION_SLA_S)
    for occasion in (Occasion.HANDED_UP, Occasion.HALF_TIME):
        passed_at = row.opened_at + SHARES[occasion] * (ends_at - row.opened_at)
        if occasion not in route.occasions or not route.enabled_at <= passed_at <= at:
            continue
        # Who has claimed it needs no reminder; seniors are told all the same, since time is short.
        return None if row.is_claimed(at) and occasion is Occasion.HALF_TIME else occasion
    return None


def _notice(route: NotificationRoute, row: Told, occasion: Occasion, at: datetime) -> Notice:
    incident = row if isinstance(row, Incident) else None
    return Notice(
        route=route,
        escalation=row if isinstance(row, Escalation) else None,
        incident=incident,
        task=row if isinstance(row, HumanTask) else None,
        occasion=occasion,
        severity=incident.severity if incident and occasion is Occasion.INCIDENT_RAISED else "",
        queued_at=at,
        next_at=sendable_at(route, row, at=at),
    )


def _write(notices: Sequence[Notice]) -> int:
    # The constraint decides between two sweepers: nothing is announced twice.
    if notices:
        Notice.objects.bulk_create(notices, ignore_conflicts=True)
    return len(notices)
