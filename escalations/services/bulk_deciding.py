"""One action on several escalations: each is decided by itself, on its own evidence, with its own record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from audit import actors, events
from escalations import queries
from escalations.contracts import Action, Family
from escalations.models import Escalation
from escalations.policy import Person
from escalations.services import deciding, escalation_locks, policy_context, two_people
from escalations.services.deciding import DecisionResult
from escalations.services.decision_request import DecisionRequest
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.core import clock, transactions
from runtime.execution.queries import target_checks
from runtime.flows.models import Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.queries import target_endpoints

MOST_ITEMS = 100
ACTIONS = (Action.ABORT, Action.OVERRIDE, Action.RESUME)
TEST_VALID = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class BulkItem:
    """One escalation as it was shown: its hash, version and impact."""

    escalation_id: UUID
    evidence_hash: str
    version: int
    impact: str


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """What became of one escalation."""

    escalation_id: UUID
    outcome: DecisionResult | Problem


def decide(
    *,
    tenant: str,
    action: Action,
    justification: str,
    items: Sequence[BulkItem],
    read_person: Callable[[], Person],
    user: Any,
) -> Sequence[ItemResult] | Problem:
    """Decide each item by itself, in a transaction of its own; a Problem refuses all of them.

    `read_person` is asked for each: rights may be withdrawn meanwhile. An item that changed since it was
    shown is refused, and the others are not.
    """
    if action not in ACTIONS:
        return Problem(
            code=ProblemCode.ACTION_UNKNOWN, detail=f"Only {', '.join(ACTIONS)} can be taken on several."
        )
    # A form that names an escalation twice means it once.
    chosen = list({item.escalation_id: item for item in items}.values())
    if not 1 <= len(chosen) <= MOST_ITEMS:
        return Problem(
            code=ProblemCode.SELECTION_WRONG, detail=f"Select between 1 and {MOST_ITEMS} escalations."
        )
    rows = {
        row.pk: row
        for row in Escalation.objects.of(tenant)
        .filter(pk__in=[item.escalation_id for item in chosen])
        .select_related("intent")
    }
    if action is Action.OVERRIDE and not _are_alike(chosen, rows.values()):
        return Problem(
            code=ProblemCode.NOT_ALIKE,
            detail="Only proposals of low impact with the same agent, kind and reason can be overridden "
            "together. Decide these one by one.",
        )
    return [
        ItemResult(
            escalation_id=item.escalation_id,
            outcome=_decide_one(
                tenant=tenant,
                item=item,
                action=action,
                justification=justification,
                row=rows.get(item.escalation_id),
                person=read_person(),
                user=user,
            ),
        )
        for item in chosen
    ]


def resume_refusal(*, row: Escalation) -> Problem | None:
    """Why RESUME may not be among several: a call in doubt that could run twice, or an untested target."""
    intent = row.intent
    if intent is None:
        return interrupt_refusal(row=row)  # of others RESUME is not offered, and its refusal says so
    doubt = doubt_refusal(row=row) if policy_context.is_in_doubt(intent) else None
    return doubt or _untested(row, intent)


def interrupt_refusal(*, row: Escalation) -> Problem | None:
    """Refuse an interrupted workflow: a person reads where each stands before it continues."""
    if row.family != Family.INTERRUPT:
        return None
    detail = "Where an interrupted workflow leads is decided on its own page."
    return Problem(code=ProblemCode.SETTLE_ALONE, detail=detail, dfid=str(row.flow_id))


def doubt_refusal(*, row: Escalation) -> Problem | None:
    """Refuse a call in doubt unless its target honours keys: a repeated call might take effect twice."""
    target = "" if row.intent is None else row.intent.target
    place = target_endpoints.get_place(tenant=row.tenant, name=target)
    if place is not None and place.honours_keys:
        return None
    return Problem(
        code=ProblemCode.SETTLE_ALONE,
        detail="Its call is in doubt, and its target does not honour keys. Decide it on its own page.",
        dfid=str(row.flow_id),
    )


def _untested(row: Escalation, intent: Intent) -> Problem | None:
    since = clock.now() - TEST_VALID
    if target_checks.was_good_since(tenant=row.tenant, name=intent.target, since=since):
        return None
    seconds = int(TEST_VALID.total_seconds())
    return Problem(
        code=ProblemCode.TARGET_UNTESTED,
        detail=f"No good test of the target within the last {seconds} seconds. Test it, then resume.",
        dfid=str(row.flow_id),
    )


def _are_alike(items: Sequence[BulkItem], rows: Any) -> bool:
    """Whether what was shown was of low impact, and is about one agent, kind and reason.

    The impact shown is bound to the evidence by the decision of each item, so none can be HIGH.
    """
    about = {(row.family, row.agent_id, row.policy_kind, row.reason) for row in rows}
    return len(about) <= 1 and all(item.impact == Impact.LOW_IMPACT for item in items)


def _decide_one(
    *,
    tenant: str,
    item: BulkItem,
    action: Action,
    justification: str,
    row: Escalation | None,
    person: Person,
    user: Any,
) -> DecisionResult | Problem:
    try:
        refused = resume_refusal(row=row) if action is Action.RESUME and row is not None else None
        if refused is not None:
            _record(tenant=tenant, item=item, action=action, code=refused.code, person=person)
            return refused
        return deciding.decide(
            tenant=tenant,
            escalation_id=item.escalation_id,
            person=person,
            user=user,
            request=DecisionRequest(
                action=action,
                evidence_hash=item.evidence_hash,
                version=item.version,
                impact=item.impact,
                justification=justification,
            ),
        )
    except transactions.BusyError:
        return Problem(
            code=ProblemCode.BUSY, detail="Someone else changed this. Review it again before deciding."
        )


@transactions.retried
def _record(*, tenant: str, item: BulkItem, action: Action, code: ProblemCode, person: Person) -> None:
    """Record what is refused before the decision is asked for, as the decision would."""
    locked = escalation_locks.lock_escalation(escalation_id=item.escalation_id, tenant=tenant)
    if locked is None:
        return
    journal = Journal(flow=locked.flow, actor=actors.user(person.user_id), at=locked.at)
    evidence = queries.get_evidence(tenant=tenant, escalations=[locked.escalation])
    shown = two_people.action_shown(
        action, escalation=locked.escalation, shown=evidence.get(item.escalation_id)
    )
    journal.add(events.EscalationRefused(escalation_id=str(item.escalation_id), action=shown, code=code))
    journal.write()
