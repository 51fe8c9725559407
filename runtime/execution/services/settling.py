"""The one place where a call in doubt becomes a call of which it is known what it did."""

from dataclasses import dataclass

from django.db.models import QuerySet

from audit import events
from runtime.contracts.states import KNOWN_EFFECTS, AttemptState, Effect, Purpose
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services.flow_transaction import Journal

# Who found out, where it was no person.
RECEIPT = "receipt"
PROBE = "probe"


@dataclass(frozen=True, kw_only=True)
class SettledLate:
    """Whether a late receipt held anything new, and the person whose statement it contradicts, or empty."""

    is_new: bool
    contradicts: str


NOTHING_NEW = SettledLate(is_new=False, contradicts="")


def settle(*, journal: Journal, intent: Intent, effect: Effect, by: str, key: str = "") -> int:
    """Write what became of the intent's calls in doubt, with its entry; how many there were.

    `by` is RECEIPT, PROBE or a person as the ledger names them. With `key` only the calls of that step are
    meant. The caller holds the intent's lock.
    """
    if effect not in KNOWN_EFFECTS:
        raise ValueError("UNKNOWN settles nothing")
    rows = Attempt.objects.filter(calls_in_doubt.IN_DOUBT, intent=intent)
    return _write(journal, rows.filter(target_key=key) if key else rows, intent, effect=effect, by=by)


def settle_left(*, journal: Journal, intent: Intent, effect: Effect, by: str, key: str) -> None:
    """Write what a person states of a call on the list, be it in doubt or contradicted by its receipt."""
    rows = Attempt.objects.filter(
        calls_in_doubt.IN_DOUBT | calls_in_doubt.CONTRADICTED, intent=intent, target_key=key
    )
    _write(journal, rows, intent, effect=effect, by=by)


def settle_late(*, journal: Journal, intent: Intent, by: str, key: str) -> SettledLate:
    """A receipt came after the claim had ended: it has happened, whatever was found or stated before."""
    lost = Attempt.objects.filter(
        intent=intent, target_key=key, state=AttemptState.UNKNOWN, purpose=Purpose.CALL
    )
    stated = lost.filter(effect=Effect.NOT_HAPPENED).exclude(settled_by__in=(RECEIPT, PROBE))
    people = list(dict.fromkeys(stated.order_by("-number").values_list("settled_by", flat=True)))
    changed = 0
    for person in people:
        said = stated.filter(settled_by=person)
        changed += _write(journal, said, intent, effect=Effect.HAPPENED, by=by, contradicts=person)
    unsaid = lost.exclude(effect=Effect.HAPPENED)
    changed += _write(journal, unsaid, intent, effect=Effect.HAPPENED, by=by)
    return SettledLate(is_new=changed > 0, contradicts=people[0] if people else "")


def _write(
    journal: Journal,
    rows: QuerySet[Attempt],
    intent: Intent,
    *,
    effect: Effect,
    by: str,
    contradicts: str = "",
) -> int:
    numbers = tuple(sorted(rows.values_list("number", flat=True)))
    if not numbers:
        return 0
    changed = Attempt.objects.filter(intent=intent, number__in=numbers).update(
        effect=effect, settled_by=by, settled_at=journal.at, contradicts=contradicts
    )
    journal.add(
        events.AttemptSettled(
            intent_id=str(intent.pk), numbers=numbers, effect=effect, by=by, contradicts=contradicts or None
        )
    )
    return changed
