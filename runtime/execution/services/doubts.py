"""Calls in doubt: whether one may be made again, and what settles it.

The one place where a call in doubt becomes a call of which it is known what it did.
"""

from dataclasses import dataclass

from django.db.models import QuerySet

from audit import events
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.states import KNOWN_EFFECTS, AttemptState, Direction, Effect, Purpose
from runtime.execution.adapters.executors import registry
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.queries.intent_plan import CurrentCall
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.queries.target_endpoints import TargetEndpoint

# Who found out, where it was no person.
RECEIPT = "receipt"
PROBE = "probe"


def on_unknown(current: CurrentCall, place: TargetEndpoint | None) -> OnUnknown:
    """What follows an unknown result at this target as it is configured now.

    The kind was checked against its target at load, but targets are deployment settings: one that does not
    honour keys would do the call twice, so a person is asked instead.
    """
    if current.on_unknown is not OnUnknown.RESEND or current.step.executor not in registry.REMOTE:
        return current.on_unknown
    return OnUnknown.RESEND if place is not None and place.honours_keys else OnUnknown.PERSON


def settles_itself(intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None) -> bool:
    """Whether no person is needed to find out what the intent's next call did."""
    return intent.purpose == Purpose.PROBE or on_unknown(current, place) is not OnUnknown.PERSON


def may_call(intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None) -> bool:
    """Whether the intent's next call may go out as far as the calls before it go.

    One in doubt is repeated where its target honours keys, or by a person's RESUME; asking is never a repeat.
    One whose receipt came too late has happened, whatever a person stated before; nothing runs in its place.
    """
    if intent.purpose == Purpose.PROBE:
        return True
    if not intent.attempts and intent.direction == Direction.FORWARD and not intent.position:
        return True  # nothing of it was ever called
    key = current.step.key
    if _replaces_what_happened(intent, key=key):
        return False
    if on_unknown(current, place) is OnUnknown.RESEND:
        return True
    done = calls_in_doubt.is_done_unrecorded(intent=intent, key=key)
    return not done and not calls_in_doubt.is_call_unanswered(intent=intent, key=key)


def needs_person(intent: Intent, *, current: CurrentCall | None) -> bool:
    """Whether only a person may end it: a call of it is in doubt, or known from a late receipt alone."""
    if calls_in_doubt.is_in_doubt(intent=intent):
        return True
    if current is None:
        return False
    key = current.step.key
    return calls_in_doubt.is_done_unrecorded(intent=intent, key=key) or _replaces_what_happened(
        intent, key=key
    )


def _replaces_what_happened(intent: Intent, *, key: str) -> bool:
    """Whether the next call is one to fall back to from a step that has happened after all."""
    forward = intent.direction == Direction.FORWARD
    return forward and calls_in_doubt.is_replaced_known_done(intent=intent, key=key)


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
    is_any = calls_in_doubt.is_call_in_doubt(intent=intent, key=key) if key else True
    if not is_any:  # as after nearly every call
        return 0
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
        contradicted = stated.filter(settled_by=person)
        changed += _write(journal, contradicted, intent, effect=Effect.HAPPENED, by=by, contradicts=person)
    left = lost.exclude(effect=Effect.HAPPENED)
    changed += _write(journal, left, intent, effect=Effect.HAPPENED, by=by)
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
