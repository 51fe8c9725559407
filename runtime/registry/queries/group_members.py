"""Who is in a group, and who was within the days for which that still counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from audit import statements
from runtime.kernel import separation
from runtime.registry.models import Membership


@dataclass(frozen=True, slots=True)
class HeldGroups:
    """The groups of a user at this moment; `lately` also those that the user left within the last days."""

    now: frozenset[str]
    lately: frozenset[str]


def held_of(*, user_pk: int, at: datetime) -> HeldGroups:
    """The groups of a user."""
    now = groups_now(user_pk=user_pk)
    return HeldGroups(now, now.union(_HELD.rows(user_pk=user_pk, since=_since(at))))


def groups_of(*, user_pk: int, at: datetime) -> frozenset[str]:
    """The groups of a user: those of now, and those that the user left within the last days."""
    return held_of(user_pk=user_pk, at=at).lately


def groups_now(*, user_pk: int) -> frozenset[str]:
    """The groups of a user at this moment."""
    return frozenset(_NOW.rows(user_pk=user_pk))


def list_holders(*, groups: Iterable[str], at: datetime) -> dict[int, datetime | None]:
    """Who holds any of the groups, by primary key: None for active members of now, else until when."""
    names, since = sorted(str(name) for name in groups), _since(at)
    found: dict[int, datetime | None] = {}
    for pk, until in _HOLDERS.rows(groups=names, since=since):
        found[pk] = max(found.get(pk) or since, until or at)
    return {**found, **dict.fromkeys(_MEMBERS.rows(groups=names))}


def list_unnoted(*, limit: int) -> list[int]:
    """Users whose groups differ from their history, by primary key."""
    now = User.groups.through.objects.filter(user__is_active=True).values_list("user_id", "group__name")
    held = Membership.objects.filter(until=None).values_list("user_id", "group")
    return sorted({pk for pk, _ in set(now) ^ set(held)})[:limit]


def _since(at: datetime) -> datetime:
    return at - timedelta(days=separation.DAYS)


def _counting(since: datetime) -> QuerySet[Membership]:
    return Membership.objects.filter(Q(until=None) | Q(until__gt=since))


def _held(*, user_pk: int, since: datetime) -> QuerySet[Membership, str]:
    return _counting(since).filter(user_id=user_pk).values_list("group", flat=True)


def _now(*, user_pk: int) -> QuerySet[Any, str]:
    return User.groups.through.objects.filter(user_id=user_pk).values_list("group__name", flat=True)


def _holders(*, groups: list[str], since: datetime) -> QuerySet[Membership, tuple[int, datetime | None]]:
    return _counting(since).filter(group__in=groups).values_list("user_id", "until")


def _members(*, groups: list[str]) -> QuerySet[User, int]:
    return User.objects.filter(is_active=True, groups__name__in=groups).values_list("pk", flat=True)


_HELD: Final = statements.Read(_held)
_NOW: Final = statements.Read(_now)
_HOLDERS: Final = statements.Read(_holders)
_MEMBERS: Final = statements.Read(_members)
