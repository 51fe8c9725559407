"""What a person decides about an intent in doubt, or one that failed too often.

Each function collects in the caller's journal and writes rows; the caller holds the locks and writes the
journal last.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction

from audit import canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.reasons import Reason
from runtime.contracts.states import KNOWN_EFFECTS, Direction, Effect, IntentState, OutcomeStatus
from runtime.contracts.verdict import Finding
from runtime.core import ports, transactions
from runtime.execution.services import doubts, intent_transitions, saga
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.proposals.services import precondition_check
from runtime.resources.services import reservations

WITH_PEOPLE = (IntentState.IN_DOUBT.value, IntentState.WITH_PERSON.value)


def resume(
    *,
    journal: Journal,
    intent: Intent,
    at: datetime,
    lifted: Sequence[Finding] = (),
    delay: timedelta = timedelta(),
) -> None:
    """RESUME: try again with the same key, the failures forgotten, and ring after the commit.

    The window is extended to one more length of the proposal's own, counted from now: a person took longer
    than the agent meant to, and decided that it should happen anyway. The check in the claim still
    asks the constraints and the freshness of the evidence. What undoes a step has no window and no such look.
    `lifted` are the findings that the person was shown and overrides. It is due after `delay`, and the window
    counts from then.
    """
    _require_with_people(intent)
    kept = precondition_check.lifted_bytes([*precondition_check.lifted_by_people(intent), *lifted])
    due_at = at + delay
    intent_transitions.extend(intent, next_at=due_at, valid_until=_extended(intent, at=due_at), lifted=kept)
    journal.add(
        events.IntentResumed(
            intent_id=str(intent.pk),
            lifted=tuple(item.subject for item in lifted),
            lifted_digest=canonical.digest(kept),
            valid_until=intent.valid_until,
        )
    )
    saga.end_pause(journal, intent)
    journal.transition(saga.resumed_flow_state(intent), reason=intent.cause)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def mark_done(
    *, journal: Journal, intent: Intent, receipt: Mapping[str, Any], actor: str, at: datetime
) -> None:
    """MARK_DONE: the person found that it has happened; what they found becomes the receipt.

    Where it was one of several steps, or of several compensations, the next one follows, in a window as long
    as the proposal's own.
    """
    _require_with_people(intent)
    body = canonical.encode(canonical.normalise(dict(receipt)))
    commitment = ledger.commit_payload(tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=body)
    saga.advance(
        journal,
        intent,
        IntentPlan.of(intent),
        receipt=body,
        receipt_commitment=commitment,
        recorded_by=actor,
        valid_until=_extended(intent, at=at) if intent.steps > 1 else None,
    )


def supersede(*, journal: Journal, intent: Intent, by_intent_id: str, effect: Effect | None) -> None:
    """MODIFY: the intent ends without an outcome, and what it holds is free, for another to run in its place.

    `effect` is a person's word of the call in doubt, None where none is: only where it did not happen can
    something else run. The caller writes the new intent, with a key of its own, in the same transaction.
    """
    _require_with_people(intent)
    if effect not in (None, Effect.NOT_HAPPENED):
        raise ValueError(f"nothing may run in place of a call whose effect is {effect}")
    if effect is not None:
        doubts.settle(journal=journal, intent=intent, effect=effect, by=journal.actor)
    changed = Intent.objects.filter(pk=intent.pk, state=intent.state, attempts=intent.attempts).update(
        state=IntentState.CANCELLED, finished_at=journal.at
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.IntentSuperseded(
            intent_id=str(intent.pk),
            by_intent_id=by_intent_id,
            stated_without_effect=effect is Effect.NOT_HAPPENED,
        ),
        *reservations.release(flow=journal.flow, reason=reservations.REPLACED, at=journal.at),
    )


def give_up(
    *,
    journal: Journal,
    intent: Intent,
    reason: Reason,
    actor: str,
    at: datetime,
    effect: Effect | None = None,
) -> None:
    """ABORT: no further forward call. `effect` is a person's word of the call in doubt, None where none is.

    Steps that were done are undone, and so is one that a person states was done, or whose receipt came too
    late; where undoing is what failed, the flow ends with what was not undone. A call whose effect is UNKNOWN
    stays in doubt after that.
    """
    _require_with_people(intent)
    plan = IntentPlan.of(intent)
    current = plan.current(intent)
    undoable = current is not None and current.step.compensation is not None
    if effect is Effect.HAPPENED and undoable and intent.direction == Direction.FORWARD:
        saga.note_done_by_person(journal, intent, plan, recorded_by=actor)
    elif current is not None and undoable and _is_questioned(intent, key=current.step.key):
        # Its receipt is recorded: it has happened, and is undone with the steps before it.
        saga.note_done_by_person(journal, intent, plan, recorded_by=actor)
    elif effect in KNOWN_EFFECTS:
        # Of the call at hand where that is in doubt; else of all that were left in doubt before it. Where its
        # receipt has come, a statement about it does not cover the others.
        stated = Effect(effect)
        key = "" if current is None else current.step.key
        settled = doubts.settle(journal=journal, intent=intent, effect=stated, by=actor, key=key)
        if not settled and not calls_in_doubt.is_at_hand_known_done(intent=intent):
            doubts.settle(journal=journal, intent=intent, effect=stated, by=actor)
    if intent.direction == Direction.COMPENSATE:
        saga.abandon(journal, intent, plan, code=reason, recorded_by=actor)
        return
    saga.fail(
        journal,
        intent,
        plan,
        status=OutcomeStatus.FAILED,
        code=reason,
        error_category=intent.state,
        recorded_by=actor,
    )


def _is_questioned(intent: Intent, *, key: str) -> bool:
    return intent.direction == Direction.FORWARD and calls_in_doubt.has_receipt(intent=intent, key=key)


def _extended(intent: Intent, *, at: datetime) -> datetime:
    window = intent.proposal.valid_until - intent.proposal.received_at
    return max(intent.valid_until, at + window)


def _require_with_people(intent: Intent) -> None:
    if intent.state not in WITH_PEOPLE:
        raise ValueError(f"an intent that is {intent.state} is not with a person")
