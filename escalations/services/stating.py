"""What became of a call that an ABORT left in doubt, or whose receipt contradicts what a person stated.

It is stated later, signed, and entered in the ledger.

The transaction of a decision: lock, look whether it is still in doubt, ask policy, write, append, commit.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from audit import actors, canonical, events
from audit.sealing import own_key
from escalations import policy
from escalations.contracts import Action, State
from escalations.models import EffectStatement, Escalation
from escalations.policy import Denied, Person
from escalations.services import comparing, escalation_locks, policy_context
from escalations.services.decision_request import StatementRequest
from escalations.services.escalation_locks import LockedEscalation
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Effect, FeedbackType
from runtime.core import transactions
from runtime.epochs.services import epochs
from runtime.execution.services import doubts
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services.flow_transaction import Journal
from runtime.resources.services import reservations

# The word for it in `escalation:refused`; no button of an open escalation has it.
STATE_EFFECT = "STATE_EFFECT"
TAMPERED = (
    "The stored data of this case does not match the ledger, so no statement can be based on it. Have "
    "the database examined."
)


@dataclass(frozen=True)
class StatementResult:
    """The statement was recorded: the effect of the call is known."""

    effect: Effect
    dfid: UUID


@transactions.retried
def state(*, tenant: str, person: Person, user: Any, request: StatementRequest) -> StatementResult | Problem:
    """State what became of a call; of two people at once one wins, and the other gets a refusal.

    `person` and `user` come from the session. Raises `transactions.BusyError` after three lost races.
    """
    about = (
        Escalation.objects.of(tenant)
        .filter(intent=request.intent_id)
        .order_by("-opened_at", "-escalation_id")
        .values_list("escalation_id", flat=True)
        .first()
    )
    locked = None if about is None else escalation_locks.lock_escalation(escalation_id=about, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No call of this intent was in doubt.")
    journal = Journal(flow=locked.flow, actor=actors.user(person.user_id), at=locked.at)
    outcome = _outcome(locked, journal, person, user, request)
    if isinstance(outcome, Problem):
        journal.add(
            events.EscalationRefused(
                escalation_id=str(locked.escalation.pk), action=STATE_EFFECT, code=outcome.code
            )
        )
    journal.write()
    return outcome


def _outcome(
    locked: LockedEscalation, journal: Journal, person: Person, user: Any, request: StatementRequest
) -> StatementResult | Problem:
    waiting = epochs.refuse_while_recovering()
    if waiting is not None:
        return _refuse(locked, waiting.code, waiting.detail)
    intent = Intent.objects.select_for_update().get(pk=request.intent_id)
    call = calls_in_doubt.get_left(intent=intent, number=request.number)
    if call is None:
        return _refuse(
            locked,
            ProblemCode.ALREADY_STATED,
            "This call is no longer in doubt, or its escalation is still open.",
        )
    basis = comparing.check_basis(locked.escalation)
    if basis.mismatches:
        journal.add(*(mismatch.event() for mismatch in basis.mismatches))
        return _refuse(locked, ProblemCode.TAMPERED, TAMPERED)
    situation = policy_context.of(
        escalation=locked.escalation, agent=locked.agent, shown=basis.evidence, at=locked.at
    )
    situation = replace(situation, state=State.OPEN, deadline_at_ms=None)
    # It weighs what it weighs to mark it done.
    answer = policy.may(Action.MARK_DONE, person, situation, now_ms=timestamps.to_ms(locked.at))
    if isinstance(answer, Denied):
        return _refuse(locked, answer.code, answer.why)
    missing = policy.reason_missing(Action.MARK_DONE, situation.impact, request.reason)
    if missing is not None:
        return _refuse(locked, ProblemCode.JUSTIFICATION_MISSING, missing)
    if request.effect is None or request.effect is Effect.UNKNOWN:
        words = "State whether the call took effect. While that is unknown, the call stays on this list."
        return _refuse(locked, ProblemCode.STATEMENT_MISSING, words)
    stated = _sign_and_store(locked, call, request.effect, user=user, reason=request.reason, solo=answer.solo)
    doubts.settle_left(
        journal=journal, intent=intent, effect=Effect(stated.effect), by=journal.actor, key=call.target_key
    )
    journal.add(
        events.EffectStated(
            escalation_id=str(stated.escalation_id),
            intent_id=str(stated.intent_id),
            number=call.number,
            step=call.step,
            direction=call.direction,
            effect=stated.effect,
            statement_digest=canonical.digest(bytes(stated.statement)),
            signature=bytes(stated.signature).hex(),
            key_id=stated.key_id,
            contradicts=call.contradicts or None,
        ),
        *reservations.give_back(intent=intent, reason=stated.effect, at=journal.at),
    )
    journal.notify_agent(
        FeedbackType.ESCALATION_RESOLVED,
        {"escalation_id": str(locked.escalation.pk), "action": Action.ABORT.value, "effect": stated.effect},
    )
    return StatementResult(effect=Effect(stated.effect), dfid=locked.flow.dfid)


def _sign_and_store(
    locked: LockedEscalation, call: Attempt, effect: Effect, *, user: Any, reason: str, solo: bool
) -> EffectStatement:
    row = locked.escalation
    words: dict[str, Any] = {
        "type": "dir-console/effect/1",
        "tenant": row.tenant,
        "escalation_id": str(row.pk),
        "evidence_hash": row.evidence_hash,
        "dfid": str(row.flow_id),
        "intent_id": str(call.intent_id),
        "number": call.number,
        "step": call.step,
        "direction": call.direction,
        "target_key": call.target_key,
        "effect": effect.value,
        "justification": reason,
        "approver": actors.user(user.pk),
        "solo": solo,
        "stated_at": timestamps.iso(locked.at),
        "nonce": secrets.token_hex(16),
    }
    if call.contradicts:
        words["contradicts"] = call.contradicts
    statement = canonical.encode(words)
    signer = own_key.signer(tenant=row.tenant, at=locked.at)
    return EffectStatement.objects.create(
        intent_id=call.intent_id,
        target_key=call.target_key,
        escalation=row,
        sequence=1 + EffectStatement.objects.filter(intent=call.intent, target_key=call.target_key).count(),
        effect=effect,
        reason=reason,
        approver=user,
        solo=solo,
        statement=statement,
        signature=signer.sign(statement),
        key_id=signer.key_id,
        stated_at=locked.at,
    )


def _refuse(locked: LockedEscalation, code: ProblemCode, detail: str) -> Problem:
    return Problem(code=code, detail=detail, dfid=str(locked.flow.dfid))
