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
from runtime.contracts.states import FlowState, IntentState, OutcomeStatus
from runtime.models import Intent
from runtime.services import races, reservations
from runtime.services.execution import endings
from runtime.services.journal import Journal

WITH_PEOPLE = (IntentState.IN_DOUBT.value, IntentState.WITH_PERSON.value)


def resume(*, journal: Journal, intent: Intent, at: datetime) -> None:
    """RESUME: try again with the same key, the failures forgotten, and ring after the commit.

    The window is extended to one more length of the proposal's own, counted from now: a person took longer
    than the agent meant to, and said that it should happen all the same. The second look in the claim still
    asks the constraints and the freshness of the evidence.
    """
    _require_with_people(intent)
    window = intent.proposal.valid_until - intent.proposal.received_at
    endings.extend(intent, next_at=at, valid_until=max(intent.valid_until, at + window))
    journal.add(events.IntentResumed(intent_id=str(intent.pk)))
    journal.move(FlowState.ACCEPTED)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def mark_done(
    *, journal: Journal, intent: Intent, receipt: Mapping[str, Any], actor: str, at: datetime
) -> None:
    """MARK_DONE: the person found that it has happened; what they found stands as the receipt."""
    _require_with_people(intent)
    body = canonical.encode(canonical.normalise(dict(receipt)))
    commitment = ledger.commit_payload(tenant=intent.tenant, body=body)
    endings.close(journal, intent, receipt=body, receipt_commitment=commitment, recorded_by=actor)


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
    """ABORT: no further call. Says nothing about what an earlier call may have done."""
    _require_with_people(intent)
    endings.abort(
        journal,
        intent,
        status=OutcomeStatus.FAILED,
        code=reason,
        error_category=intent.state,
        recorded_by=actor,
    )


def _require_with_people(intent: Intent) -> None:
    if intent.state not in WITH_PEOPLE:
        raise ValueError(f"an intent that is {intent.state} is not with a person")
