"""Calls whose worker never reported, and calls that no row shows: each is put in doubt before any other call.

Where no attempt was recorded, one of unknown result is written, as for a worker that died in its call, so
that all that follows a doubt follows here as well.
"""

import random
from datetime import datetime
from uuid import UUID

from audit import actors
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.receipt import Failure, FailureCategory, FailureClass
from runtime.contracts.states import IntentState
from runtime.core import clock, ports
from runtime.epochs.services import boots
from runtime.execution.queries import unrecorded
from runtime.execution.services import claiming, doubts, held_claims, intent_transitions, recording, saga
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import due_intents
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.queries import target_endpoints

_MOVABLE = frozenset({IntentState.PENDING, IntentState.WITH_PERSON})


def list_lost(*, at: datetime, limit: int) -> list[UUID]:
    """Claimed intents whose worker may no longer report."""
    if boots.this_boot() is None:
        return due_intents.list_orphans(at=at, limit=limit)
    claimed = due_intents.list_claimed(limit=limit)
    return [intent_id for intent_id, owner in claimed if not held_claims.is_held(intent_id, owner=owner)]


def rescue(intent_id: UUID, *, even_leased: bool = False) -> bool:
    """A worker has died between the claim and the record: it is unknown whether the call was made.

    In the caller's transaction; False where the intent is not claimed, or its worker may still report.
    """
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return False
    flow, intent = found
    at = clock.now()
    if intent.state != IntentState.CLAIMED or (_is_leased(intent, at=at) and not even_leased):
        return False
    _record_as_lost(flow, intent, at=at)
    return True


def _is_leased(intent: Intent, *, at: datetime) -> bool:
    """Whether the worker may still report.

    A server that is alone knows the leases of its own threads by a monotonic clock; what it does
    not know was claimed before it began. Several processes compare the row's time with the database's clock.
    """
    if boots.this_boot() is not None:
        return held_claims.is_held(intent.pk, owner=intent.lease_owner)
    return intent.lease_until is not None and intent.lease_until >= at


def put_in_doubt(intent_id: UUID) -> bool:
    """Put in doubt the next call of an intent, where it may have happened, in the caller's transaction."""
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return False
    flow, intent = found
    current = IntentPlan.of(intent).current(intent)
    if current is None or intent.state not in _MOVABLE:
        return False
    restored_at = unrecorded.get_restored_at(intent)
    if not unrecorded.may_have_happened(intent=intent, key=current.step.key, restored_at=restored_at):
        return False
    return treat_as_lost(flow, intent)


def treat_as_lost(flow: Flow, intent: Intent) -> bool:
    """Treat the call of an intent as one that was begun and never reported; the caller holds the locks."""
    # A person was asked before the call could be made again, and stays asked whatever the kind specifies.
    on_unknown = OnUnknown.PERSON if intent.state == IntentState.WITH_PERSON else None
    if intent.state != IntentState.CLAIMED:
        journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
        if intent.state == IntentState.WITH_PERSON:
            # What was shown is outdated: the escalation is withdrawn, and another follows at once.
            journal.add(*ports.close_escalations(flow=journal.flow, at=journal.at))
            journal.transition(saga.resumed_flow_state(intent), reason=intent.cause)
            intent_transitions.reschedule(intent, next_at=journal.at, failures=intent.failures)
        claiming.claim_lost_call(journal, intent, IntentPlan.of(intent))
        flow, intent = locks.lock_intent(intent_id=intent.pk) or (flow, intent)
    if intent.state != IntentState.CLAIMED:
        return False
    _record_as_lost(flow, intent, at=clock.now(), on_unknown=on_unknown)
    return True


def _record_as_lost(flow: Flow, intent: Intent, *, at: datetime, on_unknown: OnUnknown | None = None) -> None:
    """End the attempt of a claim as unknown; the kind says what follows, where `on_unknown` does not."""
    plan = IntentPlan.of(intent)
    current = plan.current(intent)
    if on_unknown is None and current is not None:
        place = target_endpoints.get_place(tenant=intent.tenant, name=current.step.target)
        on_unknown = doubts.on_unknown(current, place)
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=at)
    recording.follow_result(
        journal,
        intent,
        plan,
        Attempt.objects.get(intent=intent, number=intent.attempts),
        Failure(
            category=FailureCategory.LEASE_ENDED,
            failure_class=FailureClass.UNKNOWN,
            detail="the worker did not report before its lease expired; the call may have taken effect",
        ),
        on_unknown=on_unknown or OnUnknown.PERSON,
        jitter=random.random(),  # noqa: S311  # spreads retries, guards nothing
    )
    journal.write()
