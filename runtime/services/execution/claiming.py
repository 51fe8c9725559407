"""The claim: one worker takes a due intent, after a second look at everything that may have changed."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from pydantic import ValidationError

from audit import events
from runtime.contracts.outcome import Rendered
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, AttemptState, FlowState, IntentState, OutcomeStatus
from runtime.contracts.verdict import StepRequest
from runtime.models import Attempt, Flow, Intent, Target
from runtime.queries import clock, intents
from runtime.services import locks, races, rechecking, reservations
from runtime.services.execution import breaking, endings
from runtime.services.journal import Journal

SYSTEM = "system"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a target is, and the variable that holds its signing secret (empty: unsigned)."""

    base_url: str
    secret_env: str


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """An intent that is ours until `lease_until`; all that the call needs, so that it reads nothing."""

    intent_id: UUID
    agent_pk: int
    owner: str
    number: int
    step: StepRequest
    place: Place | None
    traceparent: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """No call: NOT_DUE, HELD, EXPIRED or BLOCKED, with the reason's code."""

    status: str
    detail: str = ""


def claim(intent_id: UUID, *, owner: str) -> Claimed | Refused:
    """Take an intent inside the caller's transaction, or end it, or leave it."""
    found = locks.lock_intent(intent_id=intent_id)
    if found is None:
        return Refused(status="NOT_DUE", detail="UNKNOWN")
    flow, intent = found
    journal = Journal(flow=flow, actor=SYSTEM, at=clock.now())
    if intent.state != IntentState.PENDING or intent.next_at > journal.at:
        return Refused(status="NOT_DUE", detail=intent.state)
    if journal.at >= intent.valid_until:
        return _end(journal, intent, status="EXPIRED", code=Reason.EXPIRED, outcome=OutcomeStatus.EXPIRED)
    standing = intents.get_standing(agent_pk=flow.agent_id)
    if standing.held_by is not None:
        return Refused(status="HELD", detail=standing.held_by)
    if standing.status is AgentStatus.RETIRED:
        return _end(journal, intent, status="BLOCKED", code=Reason.AGENT_RETIRED)
    step = _step(intent)
    if step is None:
        return _end(journal, intent, status="BLOCKED", code=Reason.RENDERING_FAILED)
    return _approach(journal, intent, step=step, owner=owner)


def _approach(journal: Journal, intent: Intent, *, step: StepRequest, owner: str) -> Claimed | Refused:
    """The last hurdles before a claim: the target's circuit, then everything that may have changed."""
    if not breaking.admit(journal, intent, step=step):
        journal.write()
        return Refused(status="HELD", detail=breaking.CIRCUIT_OPEN)
    obstacle = _obstacle(journal, intent)
    if obstacle is not None:
        breaking.report(journal, intent, step=step, number=intent.attempts + 1, result=None)
        return _end(journal, intent, status="BLOCKED", code=obstacle)
    return _take(journal, intent, step=step, owner=owner)


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


def _take(journal: Journal, intent: Intent, *, step: StepRequest, owner: str) -> Claimed:
    flow, number = journal.flow, intent.attempts + 1
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
        target_key=step.key,
        lease_owner=owner,
        state=AttemptState.STARTED,
        started_at=journal.at,
    )
    if flow.state == FlowState.ACCEPTED:
        journal.move(FlowState.EXECUTING)
    journal.add(
        events.AttemptStarted(
            intent_id=str(intent.pk),
            number=number,
            step=step.step,
            target_key=step.key,
            lease_until=lease_until,
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
    )


def _end(
    journal: Journal,
    intent: Intent,
    *,
    status: str,
    code: str,
    outcome: OutcomeStatus = OutcomeStatus.FAILED,
) -> Refused:
    """End an intent without a call; one whose earlier call may have taken effect goes back to a person."""
    journal.add(events.IntentBlocked(intent_id=str(intent.pk), code=code))
    if intents.is_in_doubt(intent=intent):
        endings.ask_person(journal, intent, reason=Reason.IN_DOUBT, failures=intent.failures)
    else:
        endings.abort(journal, intent, status=outcome, code=code, error_category=code)
    journal.write()
    return Refused(status=status, detail=str(code))


def _step(intent: Intent) -> StepRequest | None:
    """The rendered step; None for bytes that are no such thing, which must not be tried for ever."""
    try:
        return Rendered.from_bytes(bytes(intent.requests)).steps[0]
    except ValidationError:
        return None


def _place(flow: Flow, name: str) -> Place | None:
    target = Target.objects.of(flow.tenant).filter(name=name).first()
    if target is None:
        return None
    # A deployment may move a target without touching the pack.
    base_url = settings.DIR_TARGET_URLS.get(name, target.base_url)
    return Place(base_url=base_url, secret_env=target.secret_env)
