"""What the gate would say to a person's change, before the person submits it. Stores nothing."""

from uuid import UUID

from django.db import transaction

from escalations.contracts import Family
from escalations.policy import Person
from escalations.services import actions, holding, revising
from escalations.services.statements import Order
from escalations.services.wishes import Wish
from runtime.contracts.problem import Problem
from runtime.contracts.verdict import Verdict
from runtime.services import judging


def dry_run(*, tenant: str, escalation_id: UUID, person: Person, wish: Wish) -> Verdict | Problem:
    """The verdict on `wish`, judged like the decision itself on the evidence in force."""
    with transaction.atomic():
        held = holding.hold(escalation_id=escalation_id, tenant=tenant)
        if held is None:
            return Problem(status=404, code="ESCALATION_NOT_FOUND", detail="No escalation has this id.")
        if held.escalation.proposal is None:
            return Problem(
                status=400, code="ACTION_UNKNOWN", detail="Nothing was proposed: there is nothing to judge."
            )
        order = Order(
            escalation=held.escalation,
            person=person,
            user=None,
            wish=wish,
            shown=revising.get_next(escalation=held.escalation, flow=held.flow, agent=held.agent, at=held.at)
            if held.escalation.family == Family.OPERATIONAL
            else revising.get_shown(held.escalation),
            solo=False,
            at=held.at,
        )
        faults = actions.faults(order)
        if faults is not None:
            return faults
        claim = actions.person_claim(order)
        return judging.judge(flow=held.flow, agent=held.agent, claim=claim, at=held.at).verdict
