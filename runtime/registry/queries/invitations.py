"""Who was invited by whom, as the ledger records it: an invite has no row of its own."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from audit import actors
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.kernel import separation


def invited_by(*, actor: str, at: datetime) -> frozenset[str]:
    """The users (`user:7`) for whom `actor` made a link within the last days: the link was in their hands."""
    return frozenset(entry.stream for entry in _recent(at).filter(actor=actor))


def added_by(*, actor: str, at: datetime) -> frozenset[str]:
    """Those of them who had never had a password before."""
    return frozenset(
        entry.stream for entry in _recent(at).filter(actor=actor) if not entry.payload.get("reset")
    )


def in_one_hand_with(*, actor: str, at: datetime) -> frozenset[str]:
    """The users whose account one hand may hold together with the actor's, by links of the last days.

    Those are whom the actor invited, who invited the actor, and whom the same people invited. Without the
    actor itself; who works from a shell made no link.
    """
    links = [(entry.actor, entry.stream) for entry in _recent(at).only("actor", "stream")]
    hands = {actor, *(maker for maker, invited in links if invited == actor)}
    return frozenset(hands | {invited for maker, invited in links if maker in hands}) - {actor}


def last_of(*, user_pk: int) -> LedgerEntry | None:
    """The entry about the newest link of a user, or None."""
    rows = LedgerEntry.objects.filter(
        tenant=settings.DIR_TENANT, stream=actors.user(user_pk), kind=Kind.USER_INVITED
    )
    return rows.order_by("-seq").first()


def _recent(at: datetime) -> QuerySet[LedgerEntry]:
    since = at - timedelta(days=separation.DAYS)
    return LedgerEntry.objects.filter(tenant=settings.DIR_TENANT, kind=Kind.USER_INVITED, at__gt=since)
