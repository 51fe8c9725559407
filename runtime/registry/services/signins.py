"""Signing in and out, in a stream of its own; strangers make it grow by one entry a minute at most."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F
from django.utils.crypto import salted_hmac

from audit import actors, events, ledger
from runtime.core import clock, transactions
from runtime.registry.models import FailedSignin

STREAM = "signin"
MOST_NAMES = 100
NAMES_TOLD = 20
LATE = timedelta(seconds=10)
_SALT = "runtime.services.signins"  # part of stored digests: it stays as it was first written


@transactions.retried
def record(event: events.Event, *, user_pk: int, stream: str = STREAM) -> None:
    """Append what a user did, in a transaction of its own or the caller's."""
    ledger.append_to(
        tenant=settings.DIR_TENANT,
        stream=stream,
        actor=actors.user(user_pk),
        at=clock.now(),
        events=[event],
    )


@transactions.retried
def count_failure(*, name: str, is_locked: bool) -> None:
    """Count a sign-in that failed, or that came too often to be looked at. What was typed is not kept."""
    minute, user = _minute(clock.now()), _user_of(name)
    known_as = name if user is None else user.get_username()
    digest = salted_hmac(_SALT, known_as, algorithm="sha256").hexdigest()[:32]
    rows = FailedSignin.objects.filter(minute=minute)
    if not rows.filter(name_hash=digest).exists():
        # The names of people are few; what strangers make up is not.
        if user is None and rows.filter(user=None).count() >= MOST_NAMES:
            digest = ""
        FailedSignin.objects.bulk_create(
            [FailedSignin(minute=minute, name_hash=digest, user=user)], ignore_conflicts=True
        )
    counted = "locked" if is_locked else "failed"
    rows.filter(name_hash=digest).update(**{counted: F(counted) + 1})


def list_minutes(*, at: datetime, limit: int) -> list[datetime]:
    """The minutes that are over, for whoever was late in one too, and not recorded yet; oldest first."""
    rows = FailedSignin.objects.filter(minute__lt=_minute(at - LATE)).values_list("minute", flat=True)
    return list(rows.distinct().order_by("minute")[:limit])


def record_minute(minute: datetime) -> bool:
    """Make one entry of a minute's failures, in the caller's transaction; False where it exists already."""
    rows = list(FailedSignin.objects.select_for_update().filter(minute=minute).order_by("pk"))
    if not rows:
        return False
    # People first: names of no user must not hide whose password is being guessed.
    named = sorted(
        (row for row in rows if row.name_hash),
        key=lambda row: (row.user_id is None, -(row.failed + row.locked)),
    )
    told = named[:NAMES_TOLD]
    failed, locked = (sum(getattr(row, name) for row in rows) for name in ("failed", "locked"))
    entry = events.SigninFailed(
        minute=minute,
        failed=failed,
        locked=locked,
        names=tuple(
            events.NameTried(
                name=f"name:{row.name_hash}" if row.user_id is None else actors.user(row.user_id),
                failed=row.failed,
                locked=row.locked,
            )
            for row in told
        ),
        others=failed + locked - sum(row.failed + row.locked for row in told),
    )
    FailedSignin.objects.filter(pk__in=[row.pk for row in rows]).delete()
    ledger.append_to(
        tenant=settings.DIR_TENANT, stream=STREAM, actor=actors.SYSTEM, at=clock.now(), events=[entry]
    )
    return True


def _user_of(name: str) -> User | None:
    """The person whom a name means: people may write it in other case, and are one all the same."""
    if "\x00" in name:
        return None
    found = User.objects.filter(username__iexact=name.strip()).order_by("pk")
    return next((user for user in found if user.get_username() == name), found.first())


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
