"""An intent's walk through its steps: what a finished call, or a failure for good, leads to.

Collects in the journal; the caller writes it, and holds the locks of flow, agent and intent.
"""

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from audit import actors, canonical, events, ledger
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Direction, Effect, FlowState, OutcomeStatus, Purpose
from runtime.core import ports
from runtime.execution.services import agent_lock, intent_plan, intent_transitions, receipt_facts, settling
from runtime.flows.models import Intent, StepReceipt
from runtime.flows.queries import calls_in_doubt, saga_progress
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import saga
from runtime.kernel.saga import End, Position
from runtime.resources.services import reservations


def advance(
    journal: Journal,
    intent: Intent,
    *,
    receipt: bytes,
    receipt_commitment: str,
    recorded_by: str,
    valid_until: datetime | None = None,
) -> None:
    """The call at the intent's position is done: on to the next one, or to the end.

    That settles earlier calls of it that were in doubt. Facts that a forward step takes from its receipt are
    written first. `valid_until` is a new end of the window, for the steps that follow.
    """
    if valid_until is not None:
        intent_transitions.extend_window(intent, valid_until=valid_until)
    _settle(journal, intent, recorded_by=recorded_by)
    if intent.direction == Direction.FORWARD:
        receipt_facts.write_facts(journal, intent, receipt=receipt)
    if intent.steps == 1:
        intent_transitions.close(
            journal,
            intent,
            receipt=receipt,
            receipt_commitment=receipt_commitment,
            observed=canonical.decode(receipt),
            recorded_by=recorded_by,
        )
        return
    here = saga_progress.position_of(intent)
    step = intent_plan.step_id(intent, here.step)
    StepReceipt.objects.create(
        intent=intent,
        position=here.step,
        step=step,
        direction=here.direction,
        receipt=receipt,
        recorded_at=journal.at,
        recorded_by=recorded_by,
    )
    following = saga.after(
        here,
        steps=intent.steps,
        progress=saga_progress.progress_of(intent),
        fallbacks=intent_plan.fallbacks(intent),
    )
    journal.add(
        events.SagaAdvanced(
            intent_id=str(intent.pk),
            step=step,
            direction=here.direction,
            receipt_commitment=receipt_commitment,
            next_step=intent_plan.step_id(intent, following.step)
            if isinstance(following, Position)
            else None,
            valid_until=valid_until,
        )
    )
    if following is End.COMPLETED:
        _complete(journal, intent, recorded_by=recorded_by)
    elif following is End.CONVERGED:
        _converge(journal, intent, recorded_by=recorded_by)
    else:
        _go_on(journal, intent, following)


def fail(
    journal: Journal,
    intent: Intent,
    *,
    status: OutcomeStatus,
    code: str,
    error_category: str = "",
    recorded_by: str = actors.SYSTEM,
) -> None:
    """No further forward call will be made: what was done is undone, or there is nothing to undo."""
    take_known(journal, intent, recorded_by=recorded_by)
    progress = saga_progress.progress_of(intent)
    back = saga.turn_back(progress)
    if back is None:
        intent_transitions.abort(
            journal, intent, status=status, code=code, error_category=error_category, recorded_by=recorded_by
        )
        return
    journal.add(
        events.SagaDirtied(
            intent_id=str(intent.pk),
            step=intent_plan.step_id(
                intent, saga.first_not_done(saga_progress.position_of(intent), progress)
            ),
            cause=str(code),
            done=_ids_of(intent, progress.standing),
            category=error_category,
        )
    )
    journal.transition(FlowState.PARTIAL_SUCCESS_DIRTY, reason=str(code))
    agent_lock.lock_agent(journal)
    intent_transitions.advance_to(intent, back, at=journal.at, cause=code, cause_category=error_category)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def fallback_candidates(intent: Intent) -> dict[str, int]:
    """The steps that a route may run in place of the one at the intent's position, with their places."""
    here, spare = saga_progress.position_of(intent), intent_plan.fallbacks(intent)
    return {intent_plan.step_id(intent, at): at for at in saga.fallback_candidates(here, fallbacks=spare)}


def fall_back(journal: Journal, intent: Intent, *, to_step: str) -> None:
    """Run another step in place of the one that failed, at once, under its own key."""
    to = Position(step=fallback_candidates(intent)[to_step], direction=Direction.FORWARD)
    _go_on(journal, intent, to)


def close_failed(journal: Journal, intent: Intent, *, error_category: str) -> None:
    """A route closes the flow although the step has failed: what was done before it remains."""
    if not saga_progress.may_stand(proposals={intent.proposal_id}):
        # Nothing has happened: what a closed flow holds would be taken as used up.
        released = reservations.release(flow=journal.flow, reason=Reason.CLOSED_BY_ROUTE, at=journal.at)
        journal.add(*released)
    intent_transitions.close_failed(journal, intent, error_category=error_category)


def take_as_done(journal: Journal, intent: Intent, *, recorded_by: str) -> None:
    """By a person's word the step at hand has happened: it is undone with those before it."""
    _settle(journal, intent, recorded_by=recorded_by)
    _note_done(journal, intent, position=intent.position, recorded_by=recorded_by)


def take_known(journal: Journal, intent: Intent, *, recorded_by: str) -> None:
    """Steps that a late receipt has shown to be done are undone with the others, where that is possible.

    No statement is needed: whoever gives up without knowing leaves no known effect behind.
    """
    if intent.steps == 1:
        return
    known = calls_in_doubt.list_known_done(intent=intent)
    for step, position in intent_plan.undoable(intent).items():
        if step in known:
            _note_done(journal, intent, position=position, recorded_by=recorded_by)


def _note_done(journal: Journal, intent: Intent, *, position: int, recorded_by: str) -> None:
    step = intent_plan.step_id(intent, position)
    receipt = canonical.encode({"effect": Effect.HAPPENED.value})
    StepReceipt.objects.create(
        intent=intent,
        position=position,
        step=step,
        direction=Direction.FORWARD,
        receipt=receipt,
        recorded_at=journal.at,
        recorded_by=recorded_by,
    )
    journal.add(
        events.SagaAdvanced(
            intent_id=str(intent.pk),
            step=step,
            direction=Direction.FORWARD,
            receipt_commitment=ledger.commit_payload(tenant=intent.tenant, body=receipt),
        )
    )


def abandon(journal: Journal, intent: Intent, *, code: str, recorded_by: str) -> None:
    """A person gives up the compensations: the flow ends with what was not undone; the agent may continue."""
    intent_transitions.abort(
        journal,
        intent,
        status=OutcomeStatus.FAILED,
        code=code,
        error_category=Reason.COMPENSATION_FAILED,
        recorded_by=recorded_by,
    )
    agent_lock.unlock_agent(journal, ended=intent)


def state_again(intent: Intent) -> FlowState:
    """The state of a flow whose intent a person no longer holds."""
    if intent.direction == Direction.COMPENSATE:
        return FlowState.COMPENSATING
    return FlowState.EXECUTING if saga_progress.progress_of(intent).standing else FlowState.ACCEPTED


def _settle(journal: Journal, intent: Intent, *, recorded_by: str) -> None:
    current = intent_plan.current(intent)
    by = recorded_by
    if recorded_by == actors.SYSTEM:
        by = settling.PROBE if intent.purpose == Purpose.PROBE else settling.RECEIPT
    key = "" if current is None else current.step.key
    settling.settle(journal=journal, intent=intent, effect=Effect.HAPPENED, by=by, key=key)


def _go_on(journal: Journal, intent: Intent, to: Position) -> None:
    """The next call, at once. The flow may come from a person who has found this one done."""
    state = FlowState.EXECUTING if to.direction is Direction.FORWARD else FlowState.COMPENSATING
    if journal.flow.state != state:
        journal.transition(state, reason=intent.cause)
    intent_transitions.advance_to(intent, to, at=journal.at)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def _complete(journal: Journal, intent: Intent, *, recorded_by: str) -> None:
    """Every step is done. The outcome's receipt is `{step: receipt}`.

    Where two of them speak of the same fact, the later one counts.
    """
    rows = StepReceipt.objects.filter(intent=intent, direction=Direction.FORWARD).order_by("position")
    receipts: dict[str, Any] = {row.step: canonical.decode(bytes(row.receipt)) for row in rows}
    body = canonical.encode(receipts)
    intent_transitions.close(
        journal,
        intent,
        receipt=body,
        receipt_commitment=ledger.commit_payload(tenant=intent.tenant, body=body),
        observed={name: value for receipt in receipts.values() for name, value in receipt.items()},
        recorded_by=recorded_by,
    )


def _converge(journal: Journal, intent: Intent, *, recorded_by: str) -> None:
    """Every effect is undone: the state has converged, and the agent may work again."""
    journal.add(
        events.SagaCompensated(
            intent_id=str(intent.pk), undone=_ids_of(intent, saga_progress.progress_of(intent).undone)
        )
    )
    intent_transitions.abort(
        journal,
        intent,
        status=OutcomeStatus.COMPENSATED,
        code=intent.cause,
        error_category=intent.cause_category or intent.cause,
        recorded_by=recorded_by,
    )
    agent_lock.unlock_agent(journal, ended=intent)


def _ids_of(intent: Intent, positions: frozenset[int]) -> tuple[str, ...]:
    return tuple(intent_plan.step_id(intent, at) for at in sorted(positions))
