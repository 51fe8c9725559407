"""The one place where a call in doubt becomes a call of which it is known what it did."""

from datetime import datetime

from runtime.contracts.states import KNOWN_EFFECTS, AttemptState, Effect, Purpose
from runtime.models import Attempt, Intent
from runtime.queries import doubts

# Who found out, where it was no person.
RECEIPT = "receipt"
PROBE = "probe"


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


def settle_late(*, intent: Intent, by: str, at: datetime, key: str) -> None:
    """A receipt came after the claim had ended: it has happened, whatever was found or said before."""
    lost = Attempt.objects.filter(
        intent=intent, target_key=key, state=AttemptState.UNKNOWN, purpose=Purpose.CALL
    )
    lost.exclude(effect=Effect.HAPPENED).update(effect=Effect.HAPPENED, settled_by=by, settled_at=at)
