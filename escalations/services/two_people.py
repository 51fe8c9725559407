"""Decisions that two different people must make alike, each without knowing what the other chose.

The first is signed and waits; nothing runs. The second, if it is the same, is taken through the gate like any
other. If it is not, it takes the place of the first and waits itself. One ABORT ends it at any time.
"""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from audit import actors, canonical, events
from escalations import authority, policy
from escalations.contracts import Action, FirstEnd, State
from escalations.evidence_contracts import EvidenceDocument
from escalations.models import Decision, Escalation
from escalations.policy import EscalationContext, Person
from escalations.services import actions, escalation_locks, first_decisions, policy_context
from escalations.services.statements import ActionResult, AuthorizedDecision, choice_of, store_first
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.flows.models import Flow
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent


@dataclass(frozen=True, kw_only=True)
class FirstOfTwo(ActionResult):
    """The decision waits for a second one. `differed`: it took the place of one that chose differently."""

    resolves: bool = False
    differed: bool = False


def take(
    *,
    order: AuthorizedDecision,
    situation: EscalationContext,
    flow: Flow,
    agent: Agent,
    journal: Journal,
) -> ActionResult | Problem:
    """Take the action, or keep it as the first of two; a Problem leaves nothing behind.

    The caller has asked policy. Any decision that ends the escalation ends a first one that still waits.
    """
    row = order.escalation
    if not policy.needs_two(order.request.action, situation):
        taken = actions.take(order=order, flow=flow, agent=agent, journal=journal)
        if isinstance(taken, ActionResult) and taken.resolves:
            journal.add(*first_decisions.end(escalation=row, why=FirstEnd.ABORTED))
        return taken
    first = row.first_decision
    why = None if first is None else _superseded(first, order, situation)
    if first is None or why is not None:
        # The same questions as of a second one that is taken: the answer does not tell which it would be.
        problem = actions.check(order=order, flow=flow, agent=agent, at=journal.at)
        if problem is not None:
            return problem
        if why is not None:
            journal.add(*first_decisions.end(escalation=row, why=why))
        store_first(order=order, journal=journal)
        if row.claimed_by_id == order.person.user_id:
            # It is for someone else to look at now.
            row.claimed_by, row.claimed_until = None, None
            journal.add(events.EscalationReleased(escalation_id=str(row.pk)))
        row.version += 1
        row.save(update_fields=["version", "claimed_by", "claimed_until"])
        return FirstOfTwo(differed=why is FirstEnd.DIFFERED)
    taken = actions.take(order=order, flow=flow, agent=agent, journal=journal)
    if isinstance(taken, Problem):
        return taken
    journal.add(*first_decisions.end(escalation=row, why=FirstEnd.CONFIRMED))
    return replace(taken, confirms=canonical.digest(bytes(first.statement)))


@transactions.retried
def withdraw(*, tenant: str, escalation_id: UUID, person: Person) -> UUID | Problem:
    """Withdraw one's own first decision; returns the id of the flow.

    404 for an unknown escalation, 409 NO_FIRST_DECISION where none of this person awaits a second.
    """
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    row = locked.escalation
    journal = Journal(flow=locked.flow, actor=actors.user(person.user_id), at=locked.at)
    first = row.first_decision
    if row.state != State.OPEN or first is None or first.approver_id != person.user_id:
        refused = Problem(
            code=ProblemCode.NO_FIRST_DECISION,
            detail="You have no first decision here that awaits a second one.",
            dfid=str(locked.flow.dfid),
        )
        journal.add(events.EscalationRefused(escalation_id=str(row.pk), action="", code=refused.code))
        journal.write()
        return refused
    journal.add(*first_decisions.end(escalation=row, why=FirstEnd.WITHDRAWN))
    row.version += 1
    row.save(update_fields=["version"])
    journal.write()
    return locked.flow.dfid


def action_shown(action: Action, *, escalation: Escalation, shown: EvidenceDocument | None) -> str:
    """The action as an entry about a try names it: the second must not learn what the first tried."""
    takes_two = policy.takes_two(policy_context.impact_of(escalation), policy_context.approvals_of(shown))
    return "" if action.spec.needs_two and takes_two else action.value


def _superseded(first: Decision, order: AuthorizedDecision, situation: EscalationContext) -> FirstEnd | None:
    """Why the first decision gives way to this one; None where this one confirms it."""
    stated: dict[str, Any] = canonical.decode(bytes(first.statement))
    author = authority.person_of(first.approver, tenant=order.escalation.tenant, at=order.at)
    now_ms = timestamps.to_ms(order.at)
    action = Action(stated["action"])
    may_not = (
        policy.role_missing(author)
        or policy.beyond_authority(action, author, situation)
        or policy.ties(author, situation, now_ms=now_ms)
    )
    if not first.approver.is_active or may_not:
        return FirstEnd.RIGHTS_CHANGED
    same = canonical.encode(stated["choice"]) == canonical.encode(choice_of(order))
    return None if same else FirstEnd.DIFFERED
