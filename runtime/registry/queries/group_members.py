"""Who is in a group, and who was within the days for which that still counts."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from runtime.kernel import separation
from runtime.registry.models import Membership


def groups_of(*, user_pk: int, at: datetime) -> frozenset[str]:
    """The groups of a user: those of now, and those that the user left within the last days."""
    now = User.groups.through.objects.filter(user_id=user_pk).values_list("group__name", flat=True)
    return frozenset([*now, *_counting(at).filter(user_id=user_pk).values_list("group", flat=True)])


def groups_now(*, user_pk: int) -> frozenset[str]:
    """The groups of a user at this moment."""
    rows = User.groups.through.objects.filter(user_id=user_pk)
    return frozenset(rows.values_list("group__name", flat=True))


def list_holders(*, groups: Iterable[str], at: datetime) -> dict[int, datetime | None]:
    """Who holds any of the groups, by primary key: None for active members of now, else until when."""
    names = [str(name) for name in groups]
    found: dict[int, datetime | None] = {}
    for pk, until in _counting(at).filter(group__in=names).values_list("user_id", "until"):
        found[pk] = max(found.get(pk) or at - timedelta(days=separation.DAYS), until or at)
    members = User.objects.filter(is_active=True, groups__name__in=names)
    return {**found, **dict.fromkeys(members.values_list("pk", flat=True))}


def list_unnoted(*, limit: int) -> list[int]:
    """Users whose groups differ from their history, by primary key."""
    now = User.groups.through.objects.filter(user__is_active=True).values_list("user_id", "group__name")
    held = Membership.objects.filter(until=None).values_list("user_id", "group")
    return sorted({pk for pk, _ in set(now) ^ set(held)})[:limit]


def _counting(at: datetime) -> QuerySet[Membership]:
    return Membership.objects.filter(Q(until=None) | Q(until__gt=at - timedelta(days=separation.DAYS)))
