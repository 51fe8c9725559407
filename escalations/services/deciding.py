"""A person's decision on an escalation (DIR paper, 9.4).

The transaction of every use case: lock, check what was seen against what is, take the action through the
same gate, write, append, commit, ring. A refusal is a value, and is recorded too.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from audit import actors, events
from escalations import authority, pace, policy
from escalations.contracts import Action, Closing, Family, Occasion, State
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from escalations.pace import CheckQuestion
from escalations.policy import Denied, Person
from escalations.services import (
    comparing,
    deadlines,
    decision_pace,
    escalation_locks,
    evidence_revision,
    policy_context,
    questions,
    two_people,
)
from escalations.services.comparing import CheckedBasis
from escalations.services.decision_request import DecisionRequest
from escalations.services.escalation_locks import LockedEscalation
from escalations.services.notices import outbox
from escalations.services.statements import AuthorizedDecision, Seen, sign_and_store
from escalations.services.two_people import FirstOfTwo
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Effect
from runtime.core import transactions
from runtime.epochs.services import epochs
from runtime.execution.services import undo_windows
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import watchdog

HASH_CHARS = 64
REASON_SHOWN = 200  # characters of an earlier decision's reason, in the refusal of a later one
HASH_UNREADABLE = "evidence_hash must be the 64-character lowercase hex hash shown on the page."
TAMPERED = (
    "The stored data of this case does not match the ledger, so no decision can be based on it. Abort, "
    "or have the database examined."
)

RESTORED = (
    "The database was restored from a backup, so what is shown may already have happened. Until an admin "
    "starts a new epoch, only ABORT is allowed, without a statement about the effect of a call."
)
RECEIPT_CAME = (
    "A receipt has arrived since: the call took effect. Mark it done, or abort and state that it took effect."
)


@dataclass(frozen=True)
class DecisionResult:
    """The action was taken: the decision is recorded, or the question was sent.

    `not_before` is the end of the undo window, None where there is none.
    """

    action: Action
    dfid: UUID
    family: Family = Family.DECISION
    not_before: datetime | None = None
    first_of_two: FirstOfTwo | None = None


@transactions.retried
def decide(
    *, tenant: str, escalation_id: UUID, person: Person, user: Any, request: DecisionRequest
) -> DecisionResult | Problem:
    """Take one decision, or refuse it with a Problem that says what to do next.

    `person` is what policy may know; `user` is the row of the same account, from the session, never from
    the form. Raises `transactions.BusyError` after three lost races.
    """
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    journal = Journal(flow=locked.flow, actor=actors.user(person.user_id), at=locked.at)
    basis = comparing.check_basis(locked.escalation)
    outcome = _barred(locked, journal, person, request, basis) or _outcome(
        locked, journal, person, user, request, basis
    )
    if isinstance(outcome, Problem):
        shown = two_people.action_shown(request.action, escalation=locked.escalation, shown=basis.evidence)
        journal.add(
            events.EscalationRefused(escalation_id=str(locked.escalation.pk), action=shown, code=outcome.code)
        )
    journal.write()
    return outcome


def _barred(
    locked: LockedEscalation,
    journal: Journal,
    person: Person,
    request: DecisionRequest,
    basis: CheckedBasis,
) -> Problem | None:
    """What is refused before anything is checked again: who may not decide, and what is no evidence."""
    barred = policy.role_missing(person)
    if barred is not None:
        return _refuse(locked, barred.code, barred.why)
    only_ends = request.action.spec.in_recovery and policy.is_stopping(request.action, request.effect)
    if not only_ends and epochs.refuse_while_recovering() is not None:
        return _refuse(locked, ProblemCode.RECOVERY, RESTORED)
    if basis.mismatches and not request.action.spec.stops:
        journal.add(*(mismatch.event() for mismatch in basis.mismatches))
        return _refuse(locked, ProblemCode.TAMPERED, TAMPERED)
    return None


def _outcome(
    locked: LockedEscalation,
    journal: Journal,
    person: Person,
    user: Any,
    request: DecisionRequest,
    basis: CheckedBasis,
) -> DecisionResult | Problem:
    row, shown = locked.escalation, basis.evidence
    if row.state == State.OPEN and locked.is_past_deadline:
        deadlines.abort_expired(locked, journal)
    elif (row.family, row.state) == (Family.AGENT, State.OPEN) and watchdog.end_if_over(
        flow=locked.flow, agent=locked.agent, journal=journal
    ):
        return _refuse(locked, ProblemCode.SILENCE_OVER, "The agent called again, or is no longer monitored.")
    elif row.state == State.OPEN and not request.action.spec.stops and shown is not None:
        journal.add(*questions.stop_overdue(escalation=row, at=journal.at))
        revised = evidence_revision.revise_if_drifted(
            escalation=row,
            shown=shown,
            flow=locked.flow,
            agent=locked.agent,
            journal=journal,
            proposes=request.action.spec.changes_params,
        )
        if revised is not None:
            return _refuse(
                locked,
                ProblemCode.EVIDENCE_CHANGED,
                f"The evidence has changed: {revised.why}. Review it again.",
            )
    situation = policy_context.of(escalation=row, agent=locked.agent, shown=shown, at=locked.at)
    effect = policy.effect_of(request.action, situation, stated=request.effect)
    answer = policy.may(request.action, person, situation, now_ms=timestamps.to_ms(locked.at), effect=effect)
    if isinstance(answer, Denied):
        named = authority.with_names(answer, request.action, situation, tenant=row.tenant, at=locked.at)
        why = named if row.state == State.OPEN else _ended(row, user=user, at=locked.at)
        return _refuse(locked, answer.code, why)
    only_stops = policy.is_stopping(request.action, effect)
    seen = _seen_before_stop(locked, request, basis) if only_stops else _seen_in_force(locked, request)
    if isinstance(seen, Problem):
        return seen
    problem = _incomplete(locked, request, shown, situation, effect)
    if problem is not None:
        return problem
    question = _question(locked, request, person)
    if isinstance(question, Problem):
        return question
    order = AuthorizedDecision(
        escalation=row,
        seen=seen,
        person=person,
        user=user,
        request=request,
        shown=shown,
        solo=answer.solo,
        at=journal.at,
        question=question,
        effect=effect,
    )
    taken = two_people.take(
        order=order, situation=situation, flow=locked.flow, agent=locked.agent, journal=journal
    )
    if isinstance(taken, Problem):
        return taken
    if taken.resolves:
        journal.add(*questions.stop(escalation=row, at=journal.at, why=Closing.DECIDED))
        row.state, row.resolved_at, row.resolution = State.RESOLVED, journal.at, request.action.value
        row.version += 1
        row.claimed_by, row.claimed_until = None, None
        row.save(
            update_fields=["state", "resolved_at", "resolution", "version", "claimed_by", "claimed_until"]
        )
        outbox.queue(row, occasion=Occasion.CLOSED, at=journal.at)
        sign_and_store(order=order, taken=taken, journal=journal)
    if taken.not_before is not None and taken.intent_id is not None:
        undo_windows.begin(
            journal=journal,
            intent_id=UUID(taken.intent_id),
            not_before=taken.not_before,
            before=taken.before,
        )
    return DecisionResult(
        action=request.action,
        dfid=locked.flow.dfid,
        family=Family(row.family),
        not_before=taken.not_before,
        first_of_two=taken if isinstance(taken, FirstOfTwo) else None,
    )


def _seen_in_force(locked: LockedEscalation, request: DecisionRequest) -> Seen | Problem:
    """What you saw is what you signed: hash, version and impact must be the current ones."""
    row = locked.escalation
    if not is_hash(request.evidence_hash):
        return _refuse(locked, ProblemCode.HASH_UNREADABLE, HASH_UNREADABLE)
    if request.evidence_hash != row.evidence_hash:
        return _refuse(locked, ProblemCode.EVIDENCE_CHANGED, "This evidence is not current. Review it again.")
    if request.version != row.version:
        return _refuse(
            locked, ProblemCode.VERSION_CHANGED, "The escalation has changed since. Review it again."
        )
    if request.impact != row.impact:
        return _refuse(
            locked, ProblemCode.IMPACT_CHANGED, f"The impact is now {row.impact}. Review it again."
        )
    return Seen(revision=row.revision, evidence_hash=row.evidence_hash, impact=row.impact)


def _seen_before_stop(
    locked: LockedEscalation, request: DecisionRequest, basis: CheckedBasis
) -> Seen | Problem:
    """To run nothing needs no fresh evidence: any revision of this escalation may be signed.

    Where rows were rewritten, the page may have shown the impact of the row: that must not keep
    anybody from stopping it.
    """
    row, known, is_trusted = locked.escalation, basis.known, not basis.mismatches
    if not is_hash(request.evidence_hash):
        return _refuse(locked, ProblemCode.HASH_UNREADABLE, HASH_UNREADABLE)
    revision = comparing.get_revision(known, request.evidence_hash)
    if revision is None and not is_trusted and request.evidence_hash == row.evidence_hash:
        # The page showed no evidence, and had but the row's own hash to send: the recorded one is signed.
        newest = max(known.evidence, default=row.revision)
        recorded_hash = known.evidence.get(newest, row.evidence_hash)
        return Seen(revision=newest, evidence_hash=recorded_hash, impact=row.impact)
    if revision is None:
        return _refuse(
            locked, ProblemCode.EVIDENCE_CHANGED, "This escalation never had this evidence. Review it again."
        )
    if request.version > row.version:
        return _refuse(
            locked, ProblemCode.VERSION_CHANGED, "The escalation never had this version. Review it again."
        )
    shown = basis.evidence
    if shown is None or shown.revision != revision:
        shown = comparing.read_revision(row, known, revision)
    impact = row.impact if shown is None else shown.impact
    if request.impact != impact and (is_trusted or request.impact != row.impact):
        return _refuse(locked, ProblemCode.IMPACT_CHANGED, f"The impact shown was {impact}. Review it again.")
    return Seen(revision=revision, evidence_hash=request.evidence_hash, impact=impact)


def _incomplete(
    locked: LockedEscalation,
    request: DecisionRequest,
    shown: AnyEvidence | None,
    situation: policy.EscalationContext,
    effect: Effect | None,
) -> Problem | None:
    impact = situation.impact
    missing = policy.reason_missing(request.action, impact, request.justification, effect=effect)
    if missing is not None:
        return _refuse(locked, ProblemCode.JUSTIFICATION_MISSING, missing)
    unstated = policy.statement_missing(request.action, situation, stated=request.effect)
    if unstated is not None:
        return _refuse(locked, ProblemCode.STATEMENT_MISSING, unstated)
    if effect is Effect.NOT_HAPPENED and situation.is_known_done:
        return _refuse(locked, ProblemCode.EVIDENCE_CHANGED, RECEIPT_CAME)
    needed = "" if shown is None else shown.type_again
    if policy.is_typed_again(request.action, situation) and request.typed_again.strip() != needed.strip():
        return _refuse(locked, ProblemCode.TYPE_AGAIN, f"Type {needed} again, exactly as shown.")
    return None


def _question(
    locked: LockedEscalation, request: DecisionRequest, person: Person
) -> CheckQuestion | Problem | None:
    """What a form of the page has to answer about how it was decided; a pause comes before it."""
    if request.shown_at_ms is None or request.action.spec.stops or request.action.spec.asks:
        return None
    row = locked.escalation
    if decision_pace.is_pause_due(tenant=row.tenant, user_id=person.user_id):
        return _refuse(
            locked,
            ProblemCode.PAUSE_DUE,
            f"You have overridden {pace.PAUSE_AFTER} in a row. Look at how they ended, then continue.",
        )
    question = decision_pace.question_for(
        escalation=row,
        agent=locked.agent,
        user_id=person.user_id,
        request=request,
        shown_ms=timestamps.to_ms(locked.at) - request.shown_at_ms,
    )
    if question is None:
        return None
    missing = pace.answer_missing(request.checked, request.justification)
    if missing is None:
        return question
    return _refuse(locked, ProblemCode.CHECK_UNANSWERED, f"{question.words} {missing}")


def _ended(row: Escalation, *, user: Any, at: datetime) -> str:
    """How an escalation came to its end: who did what, how long before, and why."""
    moment = "" if row.resolved_at is None else f" at {row.resolved_at:%H:%M:%S} UTC"
    decision = row.decision
    if row.state == State.EXPIRED:
        return f"Nobody decided before the deadline{moment}, so the flow was aborted. Nothing was changed."
    if decision is None:
        return f"This escalation is {row.state.lower()}{moment}. Nothing was changed."
    earlier = _how_long(at - decision.decided_at)
    did = Action(decision.action).spec.did
    if decision.approver_id == user.pk:
        opening = f"You {did} {earlier} ago"
    else:
        opening = f"{decision.approver.get_username()} {did} {earlier} before you"
    reason = decision.justification
    shown = f"{reason[:REASON_SHOWN]}..." if len(reason) > REASON_SHOWN else reason
    why = f': "{shown}"' if shown else ""
    return f"{opening},{moment}{why}. Nothing was changed."


def _how_long(delta: timedelta) -> str:
    seconds = max(0, int(delta.total_seconds()))
    if seconds < 2 * 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 2 * 3600 else f"{seconds // 3600} h"


def _refuse(locked: LockedEscalation, code: ProblemCode, detail: str) -> Problem:
    return Problem(code=code, detail=detail, dfid=str(locked.flow.dfid))


def is_hash(text: str) -> bool:
    """Whether a text has the form of a hash as pages show it."""
    return len(text) == HASH_CHARS and set(text) <= set("0123456789abcdef")
