"""The gate's verdict on a person's change, before it is submitted. Only the answer is recorded."""

from uuid import UUID

from audit import actors, events, ledger
from escalations.evidence_contracts import JudgedEvidence, OperationalEvidence
from escalations.policy import Person
from escalations.services import (
    actions,
    comparing,
    escalation_locks,
    evidence_revision,
    two_people,
)
from escalations.services.deciding import TAMPERED
from escalations.services.decision_request import DecisionRequest
from escalations.services.statements import AuthorizedDecision, Seen
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.verdict import VerdictDocument
from runtime.core import transactions


@transactions.retried
def dry_run(
    *, tenant: str, escalation_id: UUID, person: Person, request: DecisionRequest
) -> VerdictDocument | Problem:
    """The verdict on `request`, judged like the decision itself on the current evidence."""
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    if locked.escalation.proposal is None:
        return Problem(
            code=ProblemCode.ACTION_UNKNOWN, detail="Nothing was proposed, so there is nothing to judge."
        )
    shown = comparing.check_basis(locked.escalation).evidence
    if not isinstance(shown, JudgedEvidence):
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED)
    judged: JudgedEvidence = shown
    if isinstance(shown, OperationalEvidence):
        judged = evidence_revision.get_next(
            escalation=locked.escalation, shown=shown, flow=locked.flow, agent=locked.agent, at=locked.at
        )
    order = AuthorizedDecision(
        escalation=locked.escalation,
        seen=Seen(
            revision=locked.escalation.revision,
            evidence_hash=locked.escalation.evidence_hash,
            impact=locked.escalation.impact,
        ),
        person=person,
        user=None,
        request=request,
        shown=judged,
        solo=False,
        at=locked.at,
    )
    faults = actions.faults(order, locked.agent) or actions.of_ended_epoch(locked.flow)
    if faults is not None:
        return faults
    verdict = actions.judge_change(order, flow=locked.flow, agent=locked.agent, at=locked.at).verdict
    answered = events.WhatifAnswered(
        escalation_id=str(escalation_id),
        action=two_people.action_shown(request.action, escalation=locked.escalation, shown=judged),
        verdict=verdict.decision,
        codes=tuple(finding.code for finding in verdict.reasons),
    )
    me = actors.user(person.user_id)
    ledger.append_to(tenant=tenant, stream=me, actor=me, at=locked.at, events=[answered])
    return verdict
