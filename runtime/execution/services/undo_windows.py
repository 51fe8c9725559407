"""The undo window: what a person decided waits until `not_before`, and can be taken back until then.

Until its end the agent is told nothing, since a decision that is taken back was none. Each function collects
in the caller's journal; the caller holds the locks and writes the journal last.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import actors, canonical, events
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.contracts.states import IntentState
from runtime.core import clock, transactions
from runtime.flows.models import Flow, Intent
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.resources.services import reservations

# The columns that RESUME changes, as a take-back puts them back.
_TIMES = ("valid_until",)
_PLAIN = ("state", "purpose", "answered", "failures")


def describe(intent: Intent) -> dict[str, Any]:
    """Return what a take-back of RESUME restores: the columns of the intent before it."""
    return {
        **{name: getattr(intent, name) for name in _PLAIN},
        **{name: timestamps.iso(getattr(intent, name)) for name in _TIMES},
        "lifted": canonical.decode(bytes(intent.lifted)),
    }


def begin(
    *, journal: Journal, intent_id: UUID, not_before: datetime, before: Mapping[str, Any] | None
) -> None:
    """Let the intent wait until `not_before`, and keep back what the agent would be told.

    `before` is what a take-back restores (`describe`); None where it cancels the intent.
    """
    salt = secrets.token_hex(16)
    undo = canonical.encode({"before": before, "feedback": journal.hold_feedback(), "salt": salt})
    changed = Intent.objects.filter(pk=intent_id, state=IntentState.PENDING).update(
        not_before=not_before, next_at=not_before, undo=undo
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.IntentDelayed(
            intent_id=str(intent_id),
            not_before=not_before,
            undo_digest=canonical.digest(undo),
            undo_salted=True,
        )
    )


def find_open(*, flow: Flow, at: datetime) -> Intent | None:
    """Return the intent of the flow whose undo window is still open at `at`."""
    rows = Intent.objects.filter(flow=flow, state=IntentState.PENDING, not_before__gt=at)
    return rows.exclude(undo=b"").first()


def take_back(*, journal: Journal, intent: Intent) -> None:
    """Undo the decision: the intent that it made is cancelled, the one that it resumed is as it was before.

    The flow stays where it is; the caller moves it.
    """
    before = canonical.decode(bytes(intent.undo))["before"]
    if before is None:
        _change(intent, state=IntentState.CANCELLED, finished_at=journal.at)
        journal.add(
            events.IntentCancelled(intent_id=str(intent.pk), reason=Reason.TAKEN_BACK),
            *reservations.release(flow=journal.flow, reason=Reason.TAKEN_BACK, at=journal.at),
        )
        return
    columns = {name: before[name] for name in _PLAIN}
    columns |= {name: datetime.fromisoformat(before[name]) for name in _TIMES}
    lifted = canonical.encode(before["lifted"])
    _change(intent, **columns, lifted=lifted, not_before=None, undo=b"")
    journal.add(
        events.IntentReturned(
            intent_id=str(intent.pk),
            state=columns["state"],
            valid_until=columns["valid_until"],
            lifted_digest=canonical.digest(lifted),
            purpose=columns["purpose"],
            answered=columns["answered"],
        )
    )


def end(intent_id: UUID) -> None:
    """Tell the agent what was decided, once the window has ended; in the caller's transaction."""
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return
    flow, intent = found
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    is_over = intent.not_before is not None and intent.not_before <= journal.at
    if intent.state != IntentState.PENDING or not is_over or not intent.undo:
        return
    journal.add(events.IntentReleased(intent_id=str(intent.pk)))
    journal.tell_held(canonical.decode(bytes(intent.undo))["feedback"])
    _change(intent, undo=b"")
    journal.write()


def _change(intent: Intent, **columns: Any) -> None:
    """Compare-and-swap: only an intent that waits, and that nobody has attempted since, can change."""
    rows = Intent.objects.filter(pk=intent.pk, state=IntentState.PENDING, attempts=intent.attempts)
    if rows.update(**columns) != 1:
        raise transactions.ConcurrentUpdateError
