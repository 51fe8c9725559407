"""The claim: one worker takes a due intent, after a check of everything that may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from audit import actors, events, statements
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.states import (
    LIVE_INTENTS,
    AgentStatus,
    AttemptState,
    AutonomyLevel,
    Direction,
    FlowState,
    IntentState,
    OutcomeStatus,
    Purpose,
)
from runtime.contracts.tool import ToolDefinition
from runtime.contracts.verdict import Finding, StepRequest
from runtime.core import clock, mismatches, transactions
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import boots, epochs
from runtime.execution.queries import claim_facts, unrecorded
from runtime.execution.queries.claim_facts import ClaimFacts
from runtime.execution.services import (
    approval_proofs,
    call_places,
    callbacks,
    circuit,
    doubts,
    human_steps,
    intent_transitions,
    result_rules,
    saga,
)
from runtime.execution.services.call_places import CallPlace
from runtime.execution.services.circuit import Admitted
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import recorded_flow, saga_progress
from runtime.flows.queries.intent_plan import CurrentCall, IntentPlan
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.step_checks import Broken
from runtime.proposals.services import precondition_check
from runtime.registry.queries.target_endpoints import TargetEndpoint
from runtime.registry.services import autonomy
from runtime.resources.services import reservations

UNRECORDED = "UNRECORDED"
UNRELEASED = "UNRELEASED"


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """An intent that is ours until `lease_until`; all that the call needs, so that it reads nothing.

    `step` is the call at its position: what does a step, or what undoes one. `is_trial`: it is the one call
    that a half-open circuit lets through.
    """

    intent_id: UUID
    tenant: str
    where: locks.IntentFlow
    owner: str
    number: int
    step: StepRequest
    place: TargetEndpoint | None
    traceparent: str
    direction: Direction = Direction.FORWARD
    purpose: Purpose = Purpose.CALL
    on_unknown: OnUnknown = OnUnknown.PERSON
    is_trial: bool = False
    # How the target may come to its result later, where it may answer 202.
    later: callbacks.Later | None = None
    # Of a tool, the digest of its pinned description; and the other one at the call (None: it is not listed).
    pin: str | None = None
    other_tools: list[ToolDefinition | None] = field(default_factory=list)

    @property
    def has_window(self) -> bool:
        """Whether it must happen in time and is held by the agent's status: only a forward call."""
        return self.direction is Direction.FORWARD and self.purpose is Purpose.CALL


@dataclass(frozen=True, kw_only=True)
class ClaimRefused:
    """No call: NOT_DUE, HELD, EXPIRED, BLOCKED, WITH_PERSON, TURNED_BACK or ENDED, with the reason's code.

    AWAITING: a person carries the step out; `detail` is the step.

    UNRECORDED: the call may have happened, and is to be put in doubt first (`lost_calls`).
    UNRELEASED: its undo window has ended, and the agent is to be told first (`undo_windows.end`).
    """

    status: str
    detail: str = ""


def claim(intent_id: UUID, *, owner: str) -> Claimed | ClaimRefused:
    """Take an intent inside the caller's transaction, or end it, or leave it.

    A forward call is checked once more: window, agent, the facts it depends on, the current rights. What
    undoes a step, and what asks about one, is checked only for a stop: the flow is partially executed until
    it has been made.
    """
    found = locks.lock_with_agent(intent_id=intent_id)
    if found is None:
        return ClaimRefused(status="NOT_DUE", detail="UNKNOWN")
    return _refuse_everything() or _claim_locked(*found, owner=owner)


def claim_together(intent_ids: Sequence[UUID], *, owner: str) -> dict[UUID, Claimed | ClaimRefused]:
    """Take several intents inside the caller's transaction, each as `claim` takes one.

    Those that cannot be locked with the others are not among the answers: they are to be claimed alone.
    """
    locked = locks.lock_intents(intent_ids=intent_ids)
    refused = _refuse_everything() if locked else None
    return {intent.pk: refused or _claim_locked(flow, intent, owner=owner) for flow, intent in locked}


def _refuse_everything() -> ClaimRefused | None:
    """What keeps this process from any claim."""
    if boots.is_superseded():
        return ClaimRefused(status="NOT_DUE", detail="SUPERSEDED")
    return ClaimRefused(status="HELD", detail=current_epoch.RECOVERY) if epochs.is_older() else None


def _claim_locked(flow: Flow, intent: Intent, *, owner: str) -> Claimed | ClaimRefused:
    facts = claim_facts.look(flow, intent)
    if facts.standing.stopped_by == current_epoch.RECOVERY:
        return ClaimRefused(status="HELD", detail=current_epoch.RECOVERY)
    with statements.together():
        return _judge_locked(flow, intent, facts, owner)


def _judge_locked(flow: Flow, intent: Intent, facts: ClaimFacts, owner: str) -> Claimed | ClaimRefused:
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    if intent.state not in LIVE_INTENTS:
        return ClaimRefused(status="ENDED", detail=intent.state)
    not_before = max(intent.next_at, intent.not_before or intent.next_at)
    if intent.state != IntentState.PENDING or not_before > journal.at:
        return ClaimRefused(status="NOT_DUE", detail=intent.state)
    recorded = recorded_flow.of_flow(tenant=flow.tenant, dfid=flow.dfid)
    plan = IntentPlan.of(intent)
    current = plan.current(intent)
    refused = (
        _refuse_put_back(journal, intent, recorded)
        or _refuse_tampered(journal, intent, plan, recorded)
        or (ClaimRefused(status=UNRELEASED) if intent.undo else None)
        or _refuse_unrecorded(intent, current, facts)
        or _refuse_late_or_held(journal, intent, plan, facts)
    )
    if refused is not None:
        return refused
    if current is None:
        return _end(journal, intent, plan, status="BLOCKED", code=Reason.RENDERING_FAILED)
    if facts.is_contradicted and _has_window(intent):
        # What it was to replace has taken effect after all: with this call there would be two.
        return _block(journal, intent, plan, reason=Reason.EFFECT_CONTRADICTED)
    return _admit(journal, intent, plan, recorded=recorded, current=current, owner=owner)


def _refuse_put_back(journal: Journal, intent: Intent, recorded: RecordedFlow) -> ClaimRefused | None:
    """An intent that has ended, or is with a person, is never claimed, although its row is PENDING."""
    state = recorded.state_at_rest(intent)
    if state is None:
        return None
    journal.add(mismatches.of_values("intent.state", str(intent.pk), state.value, intent.state).event())
    intent_transitions.restore_state(intent, state=state)
    journal.write()
    return ClaimRefused(status="HELD" if state in LIVE_INTENTS else "ENDED", detail=state)


def _refuse_tampered(
    journal: Journal, intent: Intent, plan: IntentPlan, recorded: RecordedFlow
) -> ClaimRefused | None:
    """Requests other than those that were accepted are never sent: a person is asked instead."""
    found = recorded.compare_intent(intent)
    if found is None:
        return None
    verdict = claim_facts.get_verdict(intent)
    journal.add(found.event())
    if (beside := recorded.compare_verdict(verdict)) is not None:
        # What a person would be shown of it cannot be trusted either.
        journal.add(beside.event())
        return _end(journal, intent, plan, status="BLOCKED", code=Reason.TAMPERED)
    return _block(journal, intent, plan, reason=Reason.TAMPERED)


def _refuse_unrecorded(intent: Intent, current: CurrentCall | None, facts: ClaimFacts) -> ClaimRefused | None:
    """Asked before the window is: what may have happened does not simply expire."""
    if current is None:
        return None
    key, restored_at = current.step.key, facts.restored_at
    happened = unrecorded.may_have_happened(intent=intent, key=key, restored_at=restored_at)
    return ClaimRefused(status=UNRECORDED) if happened else None


def _block(journal: Journal, intent: Intent, plan: IntentPlan, *, reason: Reason) -> ClaimRefused:
    journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=reason))
    intent_transitions.ask_person(journal, intent, plan, reason=reason, failures=intent.failures)
    journal.write()
    return ClaimRefused(status="BLOCKED", detail=reason)


def _admit(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    recorded: RecordedFlow,
    current: CurrentCall,
    owner: str,
) -> Claimed | ClaimRefused:
    """The last hurdles before a claim: the target's circuit, then everything that may have changed."""
    where = call_places.find(recorded, intent, current.step)
    place, refused = where.place, _refuse_place(journal, intent, plan, where)
    if refused is not None:
        return refused
    admitted = circuit.try_acquire(journal, intent, current=current, place=place)
    if admitted is Admitted.WAIT:
        journal.write()
        return ClaimRefused(status="HELD", detail=circuit.CIRCUIT_OPEN)
    if not doubts.may_call(intent, current=current, place=place):
        circuit.report_result(journal, intent, step=current.step, number=intent.attempts + 1, result=None)
        return _end(journal, intent, plan, status="BLOCKED", code=Reason.IN_DOUBT)
    obstacle = _blocking_reason(journal, intent, plan, recorded) if _has_window(intent) else None
    if obstacle is None and human_steps.is_human(current.step):
        return _await(journal, intent, current)
    if obstacle is None:
        claimed = _take(journal, intent, current=current, place=place, owner=owner)
        return replace(claimed, is_trial=admitted is Admitted.TRIAL, pin=where.pin)
    circuit.report_result(journal, intent, step=current.step, number=intent.attempts + 1, result=None)
    if isinstance(obstacle, Broken) and obstacle.pauses:
        return _pause(journal, intent, plan, obstacle, current=current)
    return _refuse_blocked(journal, intent, plan, obstacle, current=current)


def _refuse_place(
    journal: Journal, intent: Intent, plan: IntentPlan, where: CallPlace
) -> ClaimRefused | None:
    """A target or a tool that is not as recorded is not called, nor a tool that is not pinned."""
    if where.mismatch is not None:
        journal.add(where.mismatch.event())
        return _block(journal, intent, plan, reason=Reason.TAMPERED)
    code = where.refused
    return None if code is None else _end(journal, intent, plan, status="BLOCKED", code=code)


def _await(journal: Journal, intent: Intent, current: CurrentCall) -> ClaimRefused:
    """No call: the people of a group are asked, and the intent waits for their answer without a lease."""
    _move_flow(journal, intent)
    human_steps.open_task(journal, intent, current.step)
    journal.write()
    return ClaimRefused(status="AWAITING", detail=current.step.step)


def _move_flow(journal: Journal, intent: Intent) -> None:
    """The flow is under way from its first call, and turns back with the first that undoes one."""
    if journal.flow.state == FlowState.ACCEPTED:
        journal.transition(FlowState.EXECUTING)
    elif journal.flow.state == FlowState.PARTIAL_SUCCESS_DIRTY:
        journal.transition(FlowState.COMPENSATING, reason=intent.cause)


def _refuse_blocked(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    obstacle: str | Finding | Withdrawn | Broken,
    *,
    current: CurrentCall,
) -> ClaimRefused:
    """What stands against a call ends it; a limit that a person may lift goes to a person."""
    if isinstance(obstacle, Withdrawn) and not obstacle.is_final:
        # A limit is tighter now, or can no longer be checked: a person decides whether it runs.
        journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=obstacle.code))
        reason = Reason.IN_DOUBT if doubts.needs_person(intent, current=current) else Reason(obstacle.code)
        intent_transitions.ask_person(
            journal, intent, plan, reason=reason, failures=intent.failures, withdrawn=obstacle
        )
        journal.write()
        return ClaimRefused(status="WITH_PERSON", detail=obstacle.code)
    if isinstance(obstacle, Broken):
        return _end(journal, intent, plan, status="BLOCKED", code=obstacle.reason, violated=obstacle.name)
    if isinstance(obstacle, str):
        return _end(journal, intent, plan, status="BLOCKED", code=obstacle)
    worst = obstacle.worst if isinstance(obstacle, Withdrawn) else obstacle
    violated = worst.subject if worst.check == CheckName.INVARIANTS else None
    return _end(journal, intent, plan, status="BLOCKED", code=worst.code, violated=violated)


def _pause(
    journal: Journal, intent: Intent, plan: IntentPlan, broken: Broken, *, current: CurrentCall
) -> ClaimRefused:
    """Between two steps something does not hold: nothing is called or undone until a person decides."""
    journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=broken.reason, subject=broken.name))
    if doubts.needs_person(intent, current=current):
        intent_transitions.ask_person(journal, intent, plan, reason=Reason.IN_DOUBT, failures=intent.failures)
    else:
        saga.pause(journal, intent, plan, reason=broken.reason)
    journal.write()
    return ClaimRefused(status="WITH_PERSON", detail=broken.reason)


def _has_window(intent: Intent) -> bool:
    return intent.direction == Direction.FORWARD and intent.purpose == Purpose.CALL


def _refuse_late_or_held(
    journal: Journal, intent: Intent, plan: IntentPlan, facts: ClaimFacts
) -> ClaimRefused | None:
    """A call whose window has ended is not made; one whose agent is stopped or held waits."""
    has_window = _has_window(intent)
    if has_window and journal.at >= intent.valid_until:
        return _end(
            journal, intent, plan, status="EXPIRED", code=Reason.EXPIRED, outcome=OutcomeStatus.EXPIRED
        )
    held_by = facts.standing.held_by if has_window else facts.standing.stopped_by
    if held_by is not None:
        return ClaimRefused(status="HELD", detail=held_by)
    if has_window and (held := _refuse_read_only(journal, facts)) is not None:
        return held
    if has_window and facts.standing.status is AgentStatus.RETIRED:
        return _end(journal, intent, plan, status="BLOCKED", code=Reason.AGENT_RETIRED)
    return None


def _refuse_read_only(journal: Journal, facts: ClaimFacts) -> ClaimRefused | None:
    """A call of an agent whose level the ledger records as READ_ONLY waits, whatever its row says.

    The row is put back as recorded: due intents are chosen by it.
    """
    flow = journal.flow
    level, unlike = autonomy.restore(flow.agent, facts.level)
    # Of an entry that cannot be read there is nothing to put back: told once, not at each try.
    unsaid = mismatches.list_unsaid(unlike, tenant=flow.tenant, stream=str(flow.dfid))
    journal.add(*(mismatch.event() for mismatch in unsaid))
    if level is not AutonomyLevel.READ_ONLY:
        return None
    journal.write()
    return ClaimRefused(status="HELD", detail=Reason.AGENT_READ_ONLY)


def _blocking_reason(
    journal: Journal, intent: Intent, plan: IntentPlan, recorded: RecordedFlow
) -> str | Finding | Withdrawn | Broken | None:
    """What no longer holds, as a reason code or a finding, or the rights that are gone.

    What turns back comes before what pauses: no person is asked about what cannot go on. What it claims of
    resources is pinned when all holds.
    """
    verdict = claim_facts.get_verdict(intent)
    unproved = approval_proofs.refuse_unproved(journal, intent, verdict, recorded)
    if unproved is not None:
        return unproved
    seen = precondition_check.look(
        flow=journal.flow,
        intent=intent,
        row=verdict,
        step=plan.step_id(intent.position),
        receipts=saga_progress.receipts_of(intent) if intent.position else {},
        at=journal.at,
    )
    if seen.withdrawn is not None and seen.withdrawn.is_final:
        return seen.withdrawn
    if seen.stale:
        return seen.stale[0]
    for broken in seen.broken:
        if not broken.pauses:
            return broken
    if seen.withdrawn is not None:
        return seen.withdrawn
    if seen.between is not None:
        result_rules.record_asked(journal, intent, plan, seen.between)
    paused = (*seen.broken, *(() if seen.between is None else seen.between.broken))
    if paused:
        return paused[0]
    pinned = reservations.pin(intent=intent, at=journal.at)
    if pinned is None:
        return Reason.RESOURCE_CONTENTION
    journal.add(*pinned)
    return None


def _take(
    journal: Journal, intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None, owner: str
) -> Claimed:
    flow, number, step = journal.flow, intent.attempts + 1, current.step
    direction, purpose = Direction(intent.direction), Purpose(intent.purpose)
    lease_until = journal.at + timedelta(seconds=settings.DIR_LEASE_S)
    changed = _CLAIMED.run(
        intent=intent.pk, tried=intent.attempts, number=number, owner=owner, lease_until=lease_until
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    attempt = Attempt(
        intent=intent,
        number=number,
        step=step.step,
        direction=direction,
        purpose=purpose,
        target_key=step.key,
        lease_owner=owner,
        state=AttemptState.STARTED,
        started_at=journal.at,
    )
    statements.insert([attempt])
    _move_flow(journal, intent)
    journal.add(
        events.AttemptStarted(
            intent_id=str(intent.pk),
            number=number,
            step=step.step,
            target_key=step.key,
            lease_until=lease_until,
            direction=direction,
            purpose=purpose,
        )
    )
    may_be_later = purpose is Purpose.CALL and callbacks.can_be_later(step, direction, place)
    later = callbacks.open_later(journal, intent, step, number=number) if may_be_later else None
    journal.write()
    return Claimed(
        intent_id=intent.pk,
        tenant=flow.tenant,
        where=locks.IntentFlow(flow.pk, flow.agent_id, intent.steps),
        owner=owner,
        number=number,
        step=step,
        place=place,
        traceparent=flow.traceparent,
        direction=direction,
        purpose=purpose,
        on_unknown=doubts.on_unknown(current, place),
        later=later,
    )


def _claimed(
    *, intent: UUID, tried: int, number: int, owner: str, lease_until: datetime
) -> tuple[QuerySet[Intent], dict[str, Any]]:
    waiting = Intent.objects.filter(pk=intent, state=IntentState.PENDING, attempts=tried)
    claimed = {"state": IntentState.CLAIMED, "attempts": number}
    return waiting, {**claimed, "lease_owner": owner, "lease_until": lease_until}


_CLAIMED: Final = statements.Change(_claimed)


def claim_lost_call(journal: Journal, intent: Intent, plan: IntentPlan) -> None:
    """Note a call that may have been made but was not recorded; nothing is called.

    What it claims of resources is pinned as far as it can be, since it may have been used.
    """
    current = plan.current(intent)
    if current is None:
        intent_transitions.ask_person(journal, intent, plan, reason=Reason.IN_DOUBT, failures=intent.failures)
        journal.write()
        return
    journal.add(*(reservations.pin(intent=intent, at=journal.at) or ()))
    _take(journal, intent, current=current, place=None, owner=actors.SYSTEM)


def _end(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    status: str,
    code: str,
    outcome: OutcomeStatus = OutcomeStatus.FAILED,
    violated: str | None = None,
) -> ClaimRefused:
    """No call is made: the walk turns back or ends. What may have taken effect goes to a person instead."""
    journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=code, subject=violated))
    if doubts.needs_person(intent, current=plan.current(intent)):
        intent_transitions.ask_person(journal, intent, plan, reason=Reason.IN_DOUBT, failures=intent.failures)
    elif intent.direction == Direction.COMPENSATE:
        intent_transitions.ask_person(
            journal, intent, plan, reason=Reason.COMPENSATION_FAILED, failures=intent.failures
        )
    else:
        saga.fail(journal, intent, plan, status=outcome, code=code, error_category=code)
    turned_back = intent.state == IntentState.PENDING
    journal.write()
    return ClaimRefused(status="TURNED_BACK" if turned_back else status, detail=str(code))
