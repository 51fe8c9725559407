"""An intent's walk through its steps: what a finished call, or a failure for good, leads to.

Collects in the journal; the caller writes it, and holds the locks of flow, agent and intent. While a flow is
partially executed its agent is locked (DIR paper, 7.3): the agent's row is locked before the intent's, which
`locks.lock_intent` sees to where there are several steps.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from django.db import transaction

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.reasons import PAUSED, Reason
from runtime.contracts.states import AgentStatus, Direction, Effect, FlowState, OutcomeStatus, Purpose
from runtime.core import ports
from runtime.execution.services import doubts, intent_transitions, result_rules
from runtime.flows.models import Intent, StepReceipt
from runtime.flows.queries import calls_in_doubt, intent_plan, saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import saga
from runtime.kernel.saga import End, Position
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.resources.services import reservations

# An agent that is out of work for a graver reason, or for good, stays so.
_LEFT_ALONE = (AgentStatus.LOCKED, AgentStatus.SUSPENDED, AgentStatus.RETIRED)


def advance(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    receipt: bytes,
    receipt_commitment: str,
    recorded_by: str,
    valid_until: datetime | None = None,
    are_facts_written: bool = False,
    may_be_in_doubt: bool = True,
) -> None:
    """The call at the intent's position is done: on to the next one, or to the end.

    That settles earlier calls of it that were in doubt, unless the caller knows that none is. Facts that a
    forward step takes from its receipt are written first, unless they are already. `valid_until` is a new end
    of the window, for the steps that follow.
    """
    if valid_until is not None:
        intent_transitions.extend_window(intent, valid_until=valid_until)
    was_questioned = recorded_by != actors.SYSTEM and _has_receipt(intent, plan)
    # From a receipt that did not fit no facts were taken; what the person has found takes its place.
    was_questioned = was_questioned and journal.flow.reason != Reason.RECEIPT_INVALID
    if may_be_in_doubt:
        _settle(journal, intent, plan, recorded_by=recorded_by)
    if intent.direction == Direction.FORWARD and not (was_questioned or are_facts_written):
        result_rules.write_facts(journal, intent, plan, receipt=receipt)
    if intent.steps == 1:
        intent_transitions.close(
            journal,
            intent,
            plan,
            receipt=receipt,
            receipt_commitment=receipt_commitment,
            observed=canonical.decode(receipt),
            recorded_by=recorded_by,
        )
        return
    here = intent_plan.position_of(intent)
    step = plan.step_id(here.step)
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
        fallbacks=plan.fallbacks,
    )
    journal.add(
        events.SagaAdvanced(
            intent_id=str(intent.pk),
            step=step,
            direction=here.direction,
            receipt_commitment=receipt_commitment,
            next_step=plan.step_id(following.step) if isinstance(following, Position) else None,
            valid_until=valid_until,
        )
    )
    if following is End.COMPLETED:
        _complete(journal, intent, plan, recorded_by=recorded_by)
    elif following is End.CONVERGED:
        _converge(journal, intent, plan, recorded_by=recorded_by)
    else:
        _go_on(journal, intent, plan, following)


@dataclass(frozen=True, kw_only=True)
class Questioned:
    """Why a person is asked about a receipt, None where nobody is; whether its facts are written already."""

    reason: Reason | None = None
    are_facts_written: bool = False


def question(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    receipt: bytes,
    receipt_commitment: str,
    is_routed: bool = False,
) -> Questioned:
    """Ask a person about a receipt that does not fit, or about what the last one comes to.

    The effect has happened: its receipt stands, and no call is made again. A person is asked where the
    receipt does not fit the step's schema and that is grave, or a route says so (`is_routed`); where the
    outcome is none that the kind allows, or the outputs are unfit; and where a grave invariant no longer
    holds after the last step. Facts are taken from a receipt that fits only.
    """
    if intent.direction != Direction.FORWARD or not plan.is_followed:
        return Questioned()
    checked = result_rules.check_receipt(intent, plan, receipt=receipt)
    is_unfit = is_routed or not checked.fits
    result_rules.record_misfits(
        journal, intent, plan, checked, receipt_commitment=receipt_commitment, asked=is_unfit
    )
    if is_unfit:
        return _ask_about(journal, intent, plan, reason=Reason.RECEIPT_INVALID)
    whole = _last_receipt(intent, plan, receipt)
    if whole is None:
        return Questioned()
    named = result_rules.name_outcome(intent, plan, receipt=whole)
    result_rules.write_facts(journal, intent, plan, receipt=receipt)
    reason = None if named is None else named.reason
    if named is not None and reason is not None:
        kept = receipt_commitment
        if intent.steps > 1:
            kept = ledger.commit_payload(tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=whole)
        result_rules.record_name(journal, intent, named, receipt_commitment=kept)
        return _ask_about(journal, intent, plan, reason=reason)
    asked = result_rules.find_after(journal, intent, plan)
    if asked is not None and any(item.calls_person for item in asked.deviations):
        result_rules.record_asked(journal, intent, plan, asked.asked)
        return _ask_about(journal, intent, plan, reason=Reason.INVARIANT_VIOLATED_AFTER)
    return Questioned(are_facts_written=True)


def _ask_about(journal: Journal, intent: Intent, plan: IntentPlan, *, reason: Reason) -> Questioned:
    _settle(journal, intent, plan, recorded_by=actors.SYSTEM)
    intent_transitions.ask_person(journal, intent, plan, reason=reason, failures=intent.failures)
    return Questioned(reason=reason, are_facts_written=True)


def _last_receipt(intent: Intent, plan: IntentPlan, receipt: bytes) -> bytes | None:
    """What the outcome would hold with this receipt of the call at hand; None where that is not the last."""
    if intent.direction != Direction.FORWARD or not plan.is_followed:
        return None
    if intent.steps == 1:
        return receipt
    here, progress = intent_plan.position_of(intent), saga_progress.progress_of(intent)
    after = replace(progress, done=progress.done | {here.step})
    following = saga.after(here, steps=intent.steps, progress=after, fallbacks=plan.fallbacks)
    if following is not End.COMPLETED:
        return None
    receipts = saga_progress.receipts_of(intent) | {plan.step_id(here.step): canonical.decode(receipt)}
    return canonical.encode(receipts)


def _has_receipt(intent: Intent, plan: IntentPlan) -> bool:
    """Whether the call at hand has its receipt, and waits for a person because of what that says."""
    current = plan.current(intent)
    return current is not None and calls_in_doubt.has_receipt(intent=intent, key=current.step.key)


def fail(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    status: OutcomeStatus,
    code: str,
    error_category: str = "",
    recorded_by: str = actors.SYSTEM,
) -> None:
    """No further forward call will be made: what was done is undone, or there is nothing to undo."""
    note_known_done(journal, intent, plan, recorded_by=recorded_by)
    progress = saga_progress.progress_of(intent)
    back = saga.turn_back(progress)
    if back is None:
        intent_transitions.abort(
            journal,
            intent,
            plan,
            status=status,
            code=code,
            error_category=error_category,
            recorded_by=recorded_by,
        )
        return
    journal.add(
        events.SagaDirtied(
            intent_id=str(intent.pk),
            step=plan.step_id(saga.first_not_done(intent_plan.position_of(intent), progress)),
            cause=str(code),
            done=plan.step_ids(progress.standing),
            category=error_category,
        )
    )
    journal.transition(FlowState.PARTIAL_SUCCESS_DIRTY, reason=str(code))
    _lock_agent(journal)
    intent_transitions.advance_to(
        intent, plan, back, at=journal.at, cause=code, cause_category=error_category
    )
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def fall_back(journal: Journal, intent: Intent, plan: IntentPlan, *, to_step: str) -> None:
    """Run another step in place of the one that failed, at once, under its own key."""
    to = Position(step=plan.fallback_candidates(intent)[to_step], direction=Direction.FORWARD)
    _go_on(journal, intent, plan, to)


def close_failed(journal: Journal, intent: Intent, plan: IntentPlan, *, error_category: str) -> None:
    """A route closes the flow although the step has failed: what was done before it remains."""
    if not saga_progress.may_have_taken_effect(proposals={intent.proposal_id}):
        # Nothing has happened: what a closed flow holds would be taken as used up.
        released = reservations.release(flow=journal.flow, reason=Reason.CLOSED_BY_ROUTE, at=journal.at)
        journal.add(*released)
    intent_transitions.close_failed(journal, intent, plan, error_category=error_category)


def note_done_by_person(journal: Journal, intent: Intent, plan: IntentPlan, *, recorded_by: str) -> None:
    """By a person's word the step at hand has happened: it is undone with those before it."""
    _settle(journal, intent, plan, recorded_by=recorded_by)
    _note_done(journal, intent, plan, position=intent.position, recorded_by=recorded_by)


def note_known_done(journal: Journal, intent: Intent, plan: IntentPlan, *, recorded_by: str) -> None:
    """Steps that a late receipt has shown to be done are undone with the others, where that is possible.

    No statement is needed: whoever gives up without knowing leaves no known effect behind.
    """
    if intent.steps == 1:
        return
    known = calls_in_doubt.list_known_done(intent=intent)
    for step, position in plan.undoable.items():
        if step in known:
            _note_done(journal, intent, plan, position=position, recorded_by=recorded_by)


def _note_done(
    journal: Journal, intent: Intent, plan: IntentPlan, *, position: int, recorded_by: str
) -> None:
    step = plan.step_id(position)
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
            receipt_commitment=ledger.commit_payload(
                tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=receipt
            ),
        )
    )


def abandon(journal: Journal, intent: Intent, plan: IntentPlan, *, code: str, recorded_by: str) -> None:
    """A person gives up the compensations: the flow ends with what was not undone; the agent may continue."""
    intent_transitions.abort(
        journal,
        intent,
        plan,
        status=OutcomeStatus.FAILED,
        code=code,
        error_category=Reason.COMPENSATION_FAILED,
        recorded_by=recorded_by,
    )
    _unlock_agent(journal, ended=intent)


def resumed_flow_state(intent: Intent) -> FlowState:
    """The state of a flow whose intent a person no longer holds."""
    if intent.direction == Direction.COMPENSATE:
        return FlowState.COMPENSATING
    return FlowState.EXECUTING if saga_progress.progress_of(intent).standing else FlowState.ACCEPTED


def _settle(journal: Journal, intent: Intent, plan: IntentPlan, *, recorded_by: str) -> None:
    current = plan.current(intent)
    by = recorded_by
    if recorded_by == actors.SYSTEM:
        by = doubts.PROBE if intent.purpose == Purpose.PROBE else doubts.RECEIPT
    key = "" if current is None else current.step.key
    doubts.settle(journal=journal, intent=intent, effect=Effect.HAPPENED, by=by, key=key)


def _go_on(journal: Journal, intent: Intent, plan: IntentPlan, to: Position) -> None:
    """The next call, at once. The flow may come from a person who has found this one done."""
    state = FlowState.EXECUTING if to.direction is Direction.FORWARD else FlowState.COMPENSATING
    if journal.flow.state != state:
        journal.transition(state, reason=intent.cause)
    intent_transitions.advance_to(intent, plan, to, at=journal.at)
    transaction.on_commit(partial(ports.ring, [intent.pk]))


def _complete(journal: Journal, intent: Intent, plan: IntentPlan, *, recorded_by: str) -> None:
    """Every step is done. The outcome's receipt is `{step: receipt}`.

    Where two of them speak of the same fact, the later one counts.
    """
    receipts = saga_progress.receipts_of(intent)
    body = canonical.encode(receipts)
    intent_transitions.close(
        journal,
        intent,
        plan,
        receipt=body,
        receipt_commitment=ledger.commit_payload(
            tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=body
        ),
        observed={name: value for receipt in receipts.values() for name, value in receipt.items()},
        recorded_by=recorded_by,
    )


def _converge(journal: Journal, intent: Intent, plan: IntentPlan, *, recorded_by: str) -> None:
    """Every effect is undone: the state has converged, and the agent may work again."""
    journal.add(
        events.SagaCompensated(
            intent_id=str(intent.pk), undone=plan.step_ids(saga_progress.progress_of(intent).undone)
        )
    )
    intent_transitions.abort(
        journal,
        intent,
        plan,
        status=OutcomeStatus.COMPENSATED,
        code=intent.cause,
        error_category=intent.cause_category or intent.cause,
        recorded_by=recorded_by,
    )
    _unlock_agent(journal, ended=intent)


def pause(journal: Journal, intent: Intent, plan: IntentPlan, *, reason: Reason) -> None:
    """A person decides before the next step runs; while a step stands done, the agent is locked."""
    intent_transitions.ask_person(journal, intent, plan, reason=reason, failures=intent.failures)
    lock_while_paused(journal, intent)


def lock_while_paused(journal: Journal, intent: Intent) -> None:
    """Lock the agent out of new operations, where an effect stands that the pause has left half done."""
    if journal.flow.reason in PAUSED and saga_progress.progress_of(intent).standing:
        _lock_agent(journal)


def end_pause(journal: Journal, intent: Intent) -> None:
    """A person lets it go on: the agent may work again, unless another flow is partially executed."""
    if journal.flow.reason in PAUSED and intent.steps > 1:
        _unlock_agent(journal, ended=intent)


def _lock_agent(journal: Journal) -> None:
    """Lock the flow's agent out of new operations, and keep what it was before."""
    agent = agents.lock_by_pk(pk=journal.flow.agent_id)
    before = AgentStatus(agent.status)
    if before in _LEFT_ALONE:
        return
    agent.locked_from, agent.locked_from_reason = before, agent.status_reason
    _move_agent(journal, agent, to=AgentStatus.LOCKED, reason=Reason.PARTIAL_SUCCESS_DIRTY)


def _unlock_agent(journal: Journal, *, ended: Intent) -> None:
    """Let the agent work again as before, unless a person has moved it since or another flow is dirty."""
    agent = agents.lock_by_pk(pk=journal.flow.agent_id)
    ours = agent.status == AgentStatus.LOCKED and agent.status_reason == Reason.PARTIAL_SUCCESS_DIRTY
    if not ours or saga_progress.has_dirty_flows(agent=agent, besides=ended):
        return
    before, reason = AgentStatus(agent.locked_from or AgentStatus.ACTIVE), agent.locked_from_reason
    agent.locked_from, agent.locked_from_reason = "", ""
    _move_agent(journal, agent, to=before, reason=reason)


def _move_agent(journal: Journal, agent: Agent, *, to: AgentStatus, reason: str) -> None:
    before = agent.status
    agent.status, agent.status_reason = to, str(reason)
    agent.save(update_fields=["status", "status_reason", "locked_from", "locked_from_reason"])
    changed = events.AgentStatusChanged(
        agent_id=agent.agent_id, from_status=before, to_status=to, reason=str(reason)
    )
    # With the journal, after the resources that it settles: heads come last in the order of locks.
    journal.record_on(actors.agent(agent.agent_id), changed)
