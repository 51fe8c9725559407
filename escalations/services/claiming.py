"""Claims: a lease that tells colleagues who is looking. A courtesy, never a condition of deciding."""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from audit import actors, events
from audit.live import hints
from audit.live.topics import Topic
from escalations import authority, note_text, policy
from escalations.contracts import NotePurpose, State
from escalations.models import Escalation
from escalations.services import escalation_locks, notes, policy_context
from escalations.services.escalation_locks import LockedEscalation
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.flows.services.flow_transaction import Journal

LEASE = timedelta(minutes=10)
TAKE_OVER, HAND_OVER = "TAKE_OVER", "HAND_OVER"


@transactions.retried
def claim(*, tenant: str, escalation_id: UUID, user: Any) -> Problem | None:
    """Take or renew the claim; None when it is held now. A live claim of someone else is a 409."""
    locked = _lock_open(tenant, escalation_id)
    if isinstance(locked, Problem):
        return locked
    row, is_live = locked.escalation, locked.escalation.is_claimed(locked.at)
    if is_live and row.claimed_by_id != user.pk:
        detail = f"Claimed by {row.claimed_by}. You can take it over with a reason, or decide all the same."
        return Problem(code=ProblemCode.CLAIMED, detail=detail)
    _give(locked, user)
    _record(locked, user, events.EscalationClaimed(escalation_id=str(row.pk), renewed=is_live))
    return None


@transactions.retried
def renew(*, tenant: str, escalation_id: UUID, user: Any) -> bool:
    """Lengthen the user's own live claim while the page is open; False where there is none.

    Writes no entry: who has the claim, and since when, is recorded, and stays so. An open page would add one
    every few minutes that says nothing new. Other open pages are told, so that their countdown follows.
    """
    at = clock.now()
    held = Escalation.objects.of(tenant).filter(
        escalation_id=escalation_id, state=State.OPEN, claimed_by=user, claimed_until__gt=at
    )
    if not held.update(claimed_until=at + LEASE):
        return False
    dfid, seq = held.values_list("flow_id", "flow__head_seq").get()
    hints.hint_after_commit(tenant=tenant, streams=(str(dfid), Topic.ESCALATIONS), seq=seq)
    return True


@transactions.retried
def release(*, tenant: str, escalation_id: UUID, user: Any) -> Problem | None:
    """Give the claim back; releasing what one does not hold changes nothing."""
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    row = locked.escalation
    if row.claimed_by_id == user.pk:
        row.claimed_by, row.claimed_until = None, None
        row.save(update_fields=["claimed_by", "claimed_until"])
        _record(locked, user, events.EscalationReleased(escalation_id=str(row.pk)))
    return None


@transactions.retried
def take_over(
    *, tenant: str, escalation_id: UUID, user: Any, holder: int | None, reason: str
) -> Problem | None:
    """Take a live claim from who holds it, with a reason that they read. Without a live claim, just claim.

    `holder` is the primary key of whom the page showed: of two people who take over at once, the second
    learns of the first instead of taking the claim from somebody they never saw.
    """
    locked = _lock_open(tenant, escalation_id)
    if isinstance(locked, Problem):
        return locked
    row, is_live = locked.escalation, locked.escalation.is_claimed(locked.at)
    former = row.claimed_by
    if former is None or not is_live or former.pk == user.pk:
        _give(locked, user)
        _record(locked, user, events.EscalationClaimed(escalation_id=str(row.pk), renewed=is_live))
        return None
    text = note_text.check(reason, NotePurpose.TAKEOVER)
    if isinstance(text, Problem):
        return _refuse(locked, user, TAKE_OVER, text)
    if former.pk != holder:
        detail = f"{former.get_username()} has claimed this meanwhile. Take it over from them, or leave it."
        return _refuse(locked, user, TAKE_OVER, Problem(code=ProblemCode.CLAIM_MOVED, detail=detail))
    _give(locked, user)
    told = partial(events.EscalationTakenOver, escalation_id=str(row.pk), former=actors.user(former.pk))
    _record(locked, user, _noted(locked, NotePurpose.TAKEOVER, user, former, text, told))
    return None


@transactions.retried
def hand_over(*, tenant: str, escalation_id: UUID, user: Any, receiver: str, note: str) -> Problem | None:
    """Give one's own live claim to the person named `receiver`, with a note and a new lease.

    The receiver must be able to decide: have the role, and not be bound to the agent.
    """
    locked = _lock_open(tenant, escalation_id)
    if isinstance(locked, Problem):
        return locked
    row = locked.escalation
    if not row.is_claimed(locked.at) or row.claimed_by_id != user.pk:
        detail = "You do not hold the claim, so you cannot hand it over. Claim it first."
        return _refuse(locked, user, HAND_OVER, Problem(code=ProblemCode.NOT_CLAIMED, detail=detail))
    text = note_text.check(note, NotePurpose.HANDOVER)
    if isinstance(text, Problem):
        return _refuse(locked, user, HAND_OVER, text)
    found = User.objects.filter(username=receiver, is_active=True).exclude(pk=user.pk).first()
    unfit = "Choose another person who can decide." if found is None else _unfit(locked, found)
    if found is None or unfit:
        problem = Problem(code=ProblemCode.RECEIVER_CANNOT_DECIDE, detail=unfit)
        return _refuse(locked, user, HAND_OVER, problem)
    _give(locked, found)
    told = partial(events.EscalationHandedOver, escalation_id=str(row.pk), receiver=actors.user(found.pk))
    _record(locked, user, _noted(locked, NotePurpose.HANDOVER, user, found, text, told))
    return None


def _lock_open(tenant: str, escalation_id: UUID) -> LockedEscalation | Problem:
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    if locked.escalation.state == State.OPEN:
        return locked
    decision, at = locked.escalation.decision, locked.escalation.resolved_at
    who = f"{decision.approver.get_username()} decided {decision.action}" if decision else "It was closed"
    detail = f"This escalation is no longer open. {who} at {at:%H:%M:%S} UTC."
    return Problem(code=ProblemCode.ALREADY_DECIDED, detail=detail)


def _give(locked: LockedEscalation, user: Any) -> None:
    row = locked.escalation
    row.claimed_by, row.claimed_until = user, locked.at + LEASE
    row.save(update_fields=["claimed_by", "claimed_until"])


def _unfit(locked: LockedEscalation, receiver: User) -> str:
    """Why this person cannot decide here; empty where they can."""
    name = receiver.get_username()
    person = authority.person_of(receiver, tenant=locked.escalation.tenant, at=locked.at)
    if policy.role_missing(person):
        return f"{name} has no role that decides. Choose another person."
    situation = policy_context.of(escalation=locked.escalation, agent=locked.agent, shown=None, at=locked.at)
    if policy.ties(person, situation, now_ms=timestamps.to_ms(locked.at)):
        return f"{name} is bound to this agent and cannot decide. Choose another person."
    return ""


def _noted(
    locked: LockedEscalation, purpose: NotePurpose, author: Any, addressee: Any, text: str, event: Any
) -> events.Event:
    return notes.store(
        tenant=locked.escalation.tenant,
        purpose=purpose,
        author=author,
        text=text,
        at=max(locked.at, locked.flow.updated_at),
        event=event,
        flow=locked.flow,
        escalation=locked.escalation,
        addressee=addressee,
    )


def _refuse(locked: LockedEscalation, user: Any, action: str, problem: Problem) -> Problem:
    refused = events.EscalationRefused(
        escalation_id=str(locked.escalation.pk), action=action, code=problem.code
    )
    _record(locked, user, refused)
    return problem


def _record(locked: LockedEscalation, user: Any, event: events.Event) -> None:
    journal = Journal(flow=locked.flow, actor=actors.user(user.pk), at=locked.at)
    journal.add(event)
    journal.write()
