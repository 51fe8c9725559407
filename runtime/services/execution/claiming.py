"""The claim: one worker takes a due intent, after a second look at everything that may have changed."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings

from audit import events
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.states import (
    LIVE_INTENTS,
    AgentStatus,
    AttemptState,
    Direction,
    FlowState,
    IntentState,
    OutcomeStatus,
    Purpose,
)
from runtime.contracts.verdict import StepRequest
from runtime.models import Attempt, Flow, Intent, Target
from runtime.queries import clock, intents
from runtime.services import locks, races, rechecking, reservations
from runtime.services.execution import breaking, endings, rendering, walking
from runtime.services.execution.rendering import Current
from runtime.services.journal import Journal

SYSTEM = "system"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a target is, and the variable that holds its signing secret (empty: unsigned)."""

    base_url: str
    secret_env: str


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """An intent that is ours until `lease_until`; all that the call needs, so that it reads nothing.

    `step` is the call at its position: what does a step, or what undoes one.
    """

    intent_id: UUID
    agent_pk: int
    owner: str
    number: int
    step: StepRequest
    place: Place | None
    traceparent: str
    direction: Direction = Direction.FORWARD
    purpose: Purpose = Purpose.CALL
    on_unknown: OnUnknown = OnUnknown.PERSON

    @property
    def has_window(self) -> bool:
        """Whether it must happen in time and is held by the agent's status: only a forward call."""
        return self.direction is Direction.FORWARD and self.purpose is Purpose.CALL


@dataclass(frozen=True, kw_only=True)
class Refused:
    """No call: NOT_DUE, HELD, EXPIRED, BLOCKED, TURNED_BACK or ENDED, with the reason's code."""

    status: str
    detail: str = ""


def claim(intent_id: UUID, *, owner: str) -> Claimed | Refused:
    """Take an intent inside the caller's transaction, or end it, or leave it.

    A forward call is looked at once more: window, agent, the facts it stands on. What undoes a step, and what
    asks about one, is asked for nothing but a stop: the world is half changed until it has been made.
    """
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return Refused(status="NOT_DUE", detail="UNKNOWN")
    flow, intent = found
    journal = Journal(flow=flow, actor=SYSTEM, at=clock.now())
    if intent.state not in LIVE_INTENTS:
        return Refused(status="ENDED", detail=intent.state)
    if intent.state != IntentState.PENDING or intent.next_at > journal.at:
        return Refused(status="NOT_DUE", detail=intent.state)
    refused = _look_at_window_and_agent(journal, intent)
    if refused is not None:
        return refused
    current = rendering.current(intent)
    if current is None:
        return _end(journal, intent, status="BLOCKED", code=Reason.RENDERING_FAILED)
    return _approach(journal, intent, current=current, owner=owner)


def _approach(journal: Journal, intent: Intent, *, current: Current, owner: str) -> Claimed | Refused:
    """The last hurdles before a claim: the target's circuit, then everything that may have changed."""
    if not breaking.admit(journal, intent, step=current.step):
        journal.write()
        return Refused(status="HELD", detail=breaking.CIRCUIT_OPEN)
    obstacle = _obstacle(journal, intent) if _has_window(intent) else None
    if obstacle is not None:
        breaking.report(journal, intent, step=current.step, number=intent.attempts + 1, result=None)
        return _end(journal, intent, status="BLOCKED", code=obstacle)
    return _take(journal, intent, current=current, owner=owner)


def _has_window(intent: Intent) -> bool:
    return intent.direction == Direction.FORWARD and intent.purpose == Purpose.CALL


def _look_at_window_and_agent(journal: Journal, intent: Intent) -> Refused | None:
    has_window = _has_window(intent)
    if has_window and journal.at >= intent.valid_until:
        return _end(journal, intent, status="EXPIRED", code=Reason.EXPIRED, outcome=OutcomeStatus.EXPIRED)
    standing = intents.get_standing(agent_pk=journal.flow.agent_id)
    held_by = standing.held_by if has_window else standing.stopped_by
    if held_by is not None:
        return Refused(status="HELD", detail=held_by)
    if has_window and standing.status is AgentStatus.RETIRED:
        return _end(journal, intent, status="BLOCKED", code=Reason.AGENT_RETIRED)
    return None


def _obstacle(journal: Journal, intent: Intent) -> str | None:
    """What no longer holds, as a reason code; what it claims of resources is pinned when all holds."""
    findings = rechecking.recheck(flow=journal.flow, intent=intent, at=journal.at)
    if findings:
        return findings[0].code
    pinned = reservations.pin(intent=intent, at=journal.at)
    if pinned is None:
        return Reason.RESOURCE_CONTENTION
    journal.add(*pinned)
    return None


def _take(journal: Journal, intent: Intent, *, current: Current, owner: str) -> Claimed:
    flow, number, step = journal.flow, intent.attempts + 1, current.step
    direction, purpose = Direction(intent.direction), Purpose(intent.purpose)
    lease_until = journal.at + timedelta(seconds=settings.DIR_LEASE_S)
    changed = Intent.objects.filter(pk=intent.pk, state=IntentState.PENDING, attempts=intent.attempts).update(
        state=IntentState.CLAIMED, attempts=number, lease_owner=owner, lease_until=lease_until
    )
    if changed != 1:
        raise races.LostRaceError
    Attempt.objects.create(
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
    if flow.state == FlowState.ACCEPTED:
        journal.move(FlowState.EXECUTING)
    elif flow.state == FlowState.PARTIAL_SUCCESS_DIRTY:
        journal.move(FlowState.COMPENSATING, reason=intent.cause)
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
    journal.write()
    return Claimed(
        intent_id=intent.pk,
        agent_pk=flow.agent_id,
        owner=owner,
        number=number,
        step=step,
        place=_place(flow, step.target),
        traceparent=flow.traceparent,
        direction=direction,
        purpose=purpose,
        on_unknown=current.on_unknown,
    )


def _end(
    journal: Journal,
    intent: Intent,
    *,
    status: str,
    code: str,
    outcome: OutcomeStatus = OutcomeStatus.FAILED,
) -> Refused:
    """No call is made: the walk turns back or ends. What may have taken effect goes to a person instead."""
    journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=code))
    if intents.is_in_doubt(intent=intent):
        endings.ask_person(journal, intent, reason=Reason.IN_DOUBT, failures=intent.failures)
    elif intent.direction == Direction.COMPENSATE:
        endings.ask_person(journal, intent, reason=Reason.COMPENSATION_FAILED, failures=intent.failures)
    else:
        walking.fail(journal, intent, status=outcome, code=code, error_category=code)
    turned_back = intent.state == IntentState.PENDING
    journal.write()
    return Refused(status="TURNED_BACK" if turned_back else status, detail=str(code))


def _place(flow: Flow, name: str) -> Place | None:
    target = Target.objects.of(flow.tenant).filter(name=name).first()
    if target is None:
        return None
    # A deployment may move a target without touching the pack.
    base_url = settings.DIR_TARGET_URLS.get(name, target.base_url)
    return Place(base_url=base_url, secret_env=target.secret_env)
