"""The one place where a call in doubt becomes a call of which it is known what it did."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from runtime.contracts.states import KNOWN_EFFECTS, AttemptState, Effect, Purpose
from runtime.models import Attempt, Intent
from runtime.queries import doubts

# Who found out, where it was no person.
RECEIPT = "receipt"
PROBE = "probe"


@dataclass(frozen=True, kw_only=True)
class SettledLate:
    """Whether a late receipt said anything new, and the person whose statement it contradicts, or empty."""

    is_new: bool
    contradicts: str


NOTHING_NEW = SettledLate(is_new=False, contradicts="")


def settle(*, intent: Intent, effect: Effect, by: str, at: datetime, key: str = "") -> int:
    """Write what became of the intent's calls in doubt; how many there were.

    `by` is RECEIPT, PROBE or a person as the ledger names them. With `key` only the calls of that step are
    meant. The caller holds the intent's lock, and its entries say how it was found out.
    """
    if effect not in KNOWN_EFFECTS:
        raise ValueError("UNKNOWN settles nothing")
    rows = Attempt.objects.filter(doubts.IN_DOUBT, intent=intent)
    if key:
        rows = rows.filter(target_key=key)
    return rows.update(effect=effect, settled_by=by, settled_at=at)


def settle_left(*, intent: Intent, effect: Effect, by: str, at: datetime, key: str) -> None:
    """Write what a person states of a call on the list, be it in doubt or contradicted by its receipt."""
    rows = Attempt.objects.filter(doubts.IN_DOUBT | doubts.CONTRADICTED, intent=intent, target_key=key)
    rows.update(effect=effect, settled_by=by, settled_at=at, contradicts="")


def settle_late(*, intent: Intent, by: str, at: datetime, key: str) -> SettledLate:
    """A receipt came after the claim had ended: it has happened, whatever was found or said before."""
    lost = Attempt.objects.filter(
        intent=intent, target_key=key, state=AttemptState.UNKNOWN, purpose=Purpose.CALL
    )
    found = {"effect": Effect.HAPPENED, "settled_by": by, "settled_at": at}
    stated = lost.filter(effect=Effect.NOT_HAPPENED).exclude(settled_by__in=(RECEIPT, PROBE))
    person = stated.order_by("-number").values_list("settled_by", flat=True).first() or ""
    changed = stated.update(**found, contradicts=F("settled_by"))
    changed += lost.exclude(effect=Effect.HAPPENED).update(**found)
    return SettledLate(is_new=changed > 0, contradicts=person)
