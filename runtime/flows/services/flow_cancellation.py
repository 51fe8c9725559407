"""What is cancelled when a flow ends: its unclaimed intent, and open escalations."""

from datetime import datetime
from typing import assert_never

from audit import events
from runtime.contracts.reasons import Reason
from runtime.contracts.states import LIVE_INTENTS, AttemptState, FlowState, IntentState
from runtime.core import ports, transactions
from runtime.flows.models import Flow, Intent

# In any other state a call has taken effect, or is in progress.
_AT_REST = (FlowState.CREATED, FlowState.ACTIVE, FlowState.ACCEPTED, FlowState.ESCALATED)


def cancel_pending_work(*, flow: Flow, reason: Reason, at: datetime) -> list[events.Event] | None:
    """Cancel what has not left the house yet and withdraw the flow's escalations; the entries of both.

    None, and nothing is changed, where an intent is under way: it may have taken effect already, so
    only its outcome, or a person, can end the flow. The caller holds the flow's lock.
    """
    intents = list(Intent.objects.select_for_update().filter(flow=flow, state__in=LIVE_INTENTS))
    if flow.state not in _AT_REST or any(_is_under_way(intent) for intent in intents):
        return None
    added: list[events.Event] = []
    for intent in intents:
        changed = Intent.objects.filter(pk=intent.pk, state=IntentState.PENDING).update(
            state=IntentState.CANCELLED, finished_at=at
        )
        if changed != 1:
            raise transactions.ConcurrentUpdateError
        added.append(events.IntentCancelled(intent_id=str(intent.intent_id), reason=reason))
    return [*added, *ports.close_escalations(flow=flow, at=at)]


def _is_under_way(intent: Intent) -> bool:
    state = IntentState(intent.state)
    match state:
        case IntentState.PENDING:
            # Waiting for its next try counts as claimed; an attempt that was only held never left the house.
            return intent.attempt_rows.exclude(state=AttemptState.HELD).exists()
        case IntentState.CLAIMED | IntentState.AWAITING | IntentState.IN_DOUBT | IntentState.WITH_PERSON:
            return True
        case IntentState.DONE | IntentState.FAILED | IntentState.CANCELLED | IntentState.EXPIRED:
            return False
        case _:
            assert_never(state)
