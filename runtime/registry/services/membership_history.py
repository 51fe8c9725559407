"""Keeps the history of who was in which group beside Django's table of who is now."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import Group, User

from audit import actors, events, ledger
from runtime.core import clock
from runtime.registry.models import Membership


def time_of_next(*, tenant: str, user: User) -> datetime:
    """The time of what happens to a user now: rows and entry are compared by it, so it is one for both."""
    return ledger.time_of_next(tenant=tenant, stream=actors.user(user.pk), at=clock.now())


def note(*, user: User, at: datetime, done_here: bool = False) -> events.UserRolesChanged | None:
    """Bring the history of a user up to `at`, in the caller's transaction; what has changed, or None.

    The caller holds the user's row. Who may not sign in holds nothing.
    """
    now = set(Group.objects.filter(user=user).values_list("name", flat=True)) if user.is_active else set()
    held = Membership.objects.filter(user=user, until=None)
    before = set(held.values_list("group", flat=True))
    held.filter(group__in=before - now).update(until=at)
    gained = sorted(now - before)
    Membership.objects.bulk_create([Membership(user=user, group=name, since=at) for name in gained])
    if now == before:
        return None
    return events.UserRolesChanged(
        user_id=user.pk, gained=tuple(gained), lost=tuple(sorted(before - now)), done_here=done_here
    )


def note_one(pk: int) -> bool:
    """Note what was changed past this console, as in a Django shell, with an entry; in a transaction."""
    user = User.objects.select_for_update().get(pk=pk)
    at = time_of_next(tenant=settings.DIR_TENANT, user=user)
    changed = note(user=user, at=at)
    if changed is not None:
        ledger.append_to(
            tenant=settings.DIR_TENANT, stream=actors.user(pk), actor=actors.SYSTEM, at=at, events=[changed]
        )
    return changed is not None
