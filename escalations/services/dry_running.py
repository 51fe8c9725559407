"""The gate's verdict on a person's change, before it is submitted. Only the answer is recorded."""

from uuid import UUID

from audit import actors, events, ledger
from escalations.contracts import Family
from escalations.policy import Person
from escalations.services import actions, comparing, escalation_locks, evidence_revision
from escalations.services.deciding import TAMPERED
from escalations.services.decision_request import DecisionRequest
from escalations.services.statements import AuthorizedDecision, Seen
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.verdict import VerdictDocument
from runtime.core import transactions


def dry_run(
    *, tenant: str, escalation_id: UUID, person: Person, wish: DecisionRequest
) -> VerdictDocument | Problem:
    """The verdict on `wish`, judged like the decision itself on the current evidence."""
    return transactions.retry_on_conflict(lambda: _dry_run(tenant, escalation_id, person, wish))


def _dry_run(
    tenant: str, escalation_id: UUID, person: Person, wish: DecisionRequest
) -> VerdictDocument | Problem:
    held = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if held is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    if held.escalation.proposal is None:
        return Problem(
            code=ProblemCode.ACTION_UNKNOWN, detail="Nothing was proposed, so there is nothing to judge."
        )
    if comparing.compare_basis(held.escalation):
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED)
    order = AuthorizedDecision(
        escalation=held.escalation,
        seen=Seen(
            revision=held.escalation.revision,
            evidence_hash=held.escalation.evidence_hash,
            impact=held.escalation.impact,
        ),
        person=person,
        user=None,
        wish=wish,
        shown=evidence_revision.get_next(
            escalation=held.escalation, flow=held.flow, agent=held.agent, at=held.at
        )
        if held.escalation.family == Family.OPERATIONAL
        else evidence_revision.get_shown(held.escalation),
        solo=False,
        at=held.at,
    )
    faults = actions.faults(order, held.agent) or actions.of_ended_epoch(held.flow)
    if faults is not None:
        return faults
    verdict = actions.judge_change(order, flow=held.flow, agent=held.agent, at=held.at).verdict
    answered = events.WhatifAnswered(
        escalation_id=str(escalation_id),
        action=wish.action,
        verdict=verdict.decision,
        codes=tuple(finding.code for finding in verdict.reasons),
    )
    me = actors.user(person.user_id)
    ledger.append_to(tenant=tenant, stream=me, actor=me, at=held.at, events=[answered])
    return verdict
