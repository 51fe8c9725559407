"""Calls that may have been made though no row shows it: each is put in doubt before anything is called.

An attempt of unknown result is written for it, as for a worker that died in its call, so that all that
follows a doubt follows here as well.
"""

import random
from uuid import UUID

from audit import actors
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.states import IntentState
from runtime.core import clock, ports
from runtime.execution.queries import unrecorded
from runtime.execution.services import claiming, intent_plan, intent_transitions, recording, saga
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal

_MOVABLE = frozenset({IntentState.PENDING, IntentState.WITH_PERSON})


def put_in_doubt(intent_id: UUID) -> bool:
    """Put in doubt the next call of an intent, where it may have happened, in the caller's transaction."""
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return False
    flow, intent = found
    current = intent_plan.current(intent)
    if current is None or intent.state not in _MOVABLE:
        return False
    if not unrecorded.may_have_happened(intent=intent, key=current.step.key):
        return False
    return take_as_lost(flow, intent)


def take_as_lost(flow: Flow, intent: Intent) -> bool:
    """Treat the call of an intent as one that was begun and never reported; the caller holds the locks."""
    # A person was asked before the call could be made again, and stays asked whatever the kind specifies.
    on_unknown = OnUnknown.PERSON if intent.state == IntentState.WITH_PERSON else None
    if intent.state != IntentState.CLAIMED:
        journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
        if intent.state == IntentState.WITH_PERSON:
            # What was shown is outdated: the escalation is withdrawn, and another follows at once.
            journal.add(*ports.close_escalations(flow=journal.flow, at=journal.at))
            journal.transition(saga.state_again(intent), reason=intent.cause)
            intent_transitions.reschedule(intent, next_at=journal.at, failures=intent.failures)
        claiming.take_as_lost(journal, intent)
        flow, intent = locks.lock_intent(intent_id=intent.pk) or (flow, intent)
    if intent.state != IntentState.CLAIMED:
        return False
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    attempt = Attempt.objects.get(intent=intent, number=intent.attempts)
    jitter = random.random()  # noqa: S311  # spreads retries, guards nothing
    recording.record_lost_attempt(journal, intent, attempt, jitter=jitter, on_unknown=on_unknown)
    journal.write()
    return True
