"""What a person decides about an intent in doubt, or one that failed too often.

Each function collects in the caller's journal and writes rows; the caller holds the locks and writes the
journal last.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from audit import canonical, events, ledger
from runtime import ports
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Direction, FlowState, IntentState, OutcomeStatus
from runtime.models import Intent
from runtime.queries import sagas
from runtime.services import races, reservations
from runtime.services.execution import endings, walking
from runtime.services.journal import Journal

WITH_PEOPLE = (IntentState.IN_DOUBT.value, IntentState.WITH_PERSON.value)


def resume(*, journal: Journal, intent: Intent, at: datetime) -> None:
    """RESUME: try again with the same key, the failures forgotten, and ring after the commit.

    The window is extended to one more length of the proposal's own, counted from now: a person took longer
    than the agent meant to, and said that it should happen all the same. The second look in the claim still
    asks the constraints and the freshness of the evidence. What undoes a step has no window and no such look.
    """
    _require_with_people(intent)
    endings.extend(intent, next_at=at, valid_until=_extended(intent, at=at))
    journal.add(events.IntentResumed(intent_id=str(intent.pk)))
    journal.move(_resumed_state(intent), reason=intent.cause)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def mark_done(
    *, journal: Journal, intent: Intent, receipt: Mapping[str, Any], actor: str, at: datetime
) -> None:
    """MARK_DONE: the person found that it has happened; what they found stands as the receipt.

    Where it was one of several steps, or of several compensations, the next one follows, in a window as long
    as the proposal's own.
    """
    _require_with_people(intent)
    body = canonical.encode(canonical.normalise(dict(receipt)))
    commitment = ledger.commit_payload(tenant=intent.tenant, body=body)
    if intent.steps > 1:
        endings.lengthen(intent, valid_until=_extended(intent, at=at))
    walking.advance(journal, intent, receipt=body, receipt_commitment=commitment, recorded_by=actor)


def supersede(*, journal: Journal, intent: Intent, by_intent_id: str, stated_without_effect: bool) -> None:
    """MODIFY: the intent ends without an outcome, and what it holds is free, for another to run in its place.

    `stated_without_effect` is a person's word that no earlier call of it took effect or will. The caller
    writes the new intent, with a key of its own, in the same transaction.
    """
    _require_with_people(intent)
    changed = Intent.objects.filter(pk=intent.pk, state=intent.state, attempts=intent.attempts).update(
        state=IntentState.CANCELLED, finished_at=journal.at
    )
    if changed != 1:
        raise races.LostRaceError
    journal.add(
        events.IntentSuperseded(
            intent_id=str(intent.pk),
            by_intent_id=by_intent_id,
            stated_without_effect=stated_without_effect,
        ),
        *reservations.release(flow=journal.flow, reason=reservations.REPLACED, at=journal.at),
    )


def give_up(*, journal: Journal, intent: Intent, reason: Reason, actor: str, at: datetime) -> None:
    """ABORT: no further forward call. Says nothing about what an earlier call of the same step may have done.

    Steps that were done are undone; where that is what failed, the flow ends with what still stands.
    """
    _require_with_people(intent)
    if intent.direction == Direction.COMPENSATE:
        walking.abandon(journal, intent, code=reason, recorded_by=actor)
        return
    walking.fail(
        journal,
        intent,
        status=OutcomeStatus.FAILED,
        code=reason,
        error_category=intent.state,
        recorded_by=actor,
    )


def _extended(intent: Intent, *, at: datetime) -> datetime:
    window = intent.proposal.valid_until - intent.proposal.received_at
    return max(intent.valid_until, at + window)


def _resumed_state(intent: Intent) -> FlowState:
    if intent.direction == Direction.COMPENSATE:
        return FlowState.COMPENSATING
    return FlowState.EXECUTING if sagas.progress_of(intent).standing else FlowState.ACCEPTED


def _require_with_people(intent: Intent) -> None:
    if intent.state not in WITH_PEOPLE:
        raise ValueError(f"an intent that is {intent.state} is not with a person")
