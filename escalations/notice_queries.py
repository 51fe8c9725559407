"""Reads of notification routes and of notices. Never the address of a route, which only its sender reads."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery

from escalations.contracts import NoticeState
from escalations.models import Escalation, Notice, NotificationRoute
from runtime.registry.models import Agent, PolicyKind

NEWEST: Final = 50
_LISTED: Final = 500


def list_routes(*, tenant: str) -> Sequence[NotificationRoute]:
    """The routes by name, each with `last_sent_at`, `waiting`, `failed`, and how its last try ended.

    `last_state` and `last_error` are those of the newest notice that was tried; None where there is none.
    """
    tried = Notice.objects.filter(route=OuterRef("pk"), tries__gt=0).order_by("-notice_id")
    rows = NotificationRoute.objects.of(tenant).filter(deleted_at=None).defer("address")
    return list(
        rows.annotate(
            last_sent_at=Max("notices__ended_at", filter=Q(notices__state=NoticeState.SENT)),
            waiting=Count("notices", filter=Q(notices__state=NoticeState.PENDING)),
            failed=Count("notices", filter=Q(notices__state=NoticeState.FAILED)),
            last_state=Subquery(tried.values("state")[:1]),
            last_error=Subquery(tried.values("error")[:1]),
        ).order_by("name")
    )


def get_route(*, tenant: str, route_id: UUID) -> NotificationRoute | None:
    """A route that was not deleted."""
    rows = NotificationRoute.objects.of(tenant).filter(deleted_at=None)
    return rows.defer("address").filter(route_id=route_id).first()


def list_newest(*, tenant: str, size: int = NEWEST) -> Sequence[Notice]:
    """The newest notices of all routes, also of deleted ones, with route and what they tell of."""
    return list(_notices().filter(route__tenant=tenant)[:size])


def list_of_escalation(*, escalation: Escalation) -> Sequence[Notice]:
    """Who was, or is to be, told of an escalation, newest first."""
    return list(_notices().filter(escalation=escalation))


def list_agent_ids(*, tenant: str) -> Sequence[str]:
    """The agents that a route can be limited to."""
    return list(Agent.objects.of(tenant).order_by("agent_id").values_list("agent_id", flat=True)[:_LISTED])


def list_kinds(*, tenant: str) -> Sequence[str]:
    """The policy kinds that a route can be limited to."""
    kinds = PolicyKind.objects.of(tenant).order_by("kind").values_list("kind", flat=True)
    return list(kinds.distinct()[:_LISTED])


def _notices() -> QuerySet[Notice]:
    return (
        Notice.objects.select_related("route", "escalation", "incident", "task__intent__flow__agent")
        .defer("route__address")
        .order_by("-notice_id")
    )
