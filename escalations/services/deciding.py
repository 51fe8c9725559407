"""A person's decision on an escalation (DIR paper, 9.4).

The transaction of every use case: lock, check what was seen against what is, take the action through the
same gate, write, append, commit, ring. A refusal is a value, and is recorded too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import events
from escalations import policy
from escalations.contracts import Action, Closing, State
from escalations.models import Escalation
from escalations.policy import Denied, Person
from escalations.services import actions, deadlines, holding, revising, silences, situations, waiting
from escalations.services.holding import Held
from escalations.services.statements import Order, sign_and_store
from escalations.services.wishes import Wish
from runtime.contracts.problem import Problem
from runtime.kernel import moments
from runtime.services import races
from runtime.services.journal import Journal


@dataclass(frozen=True)
class Decided:
    """The action was taken: the decision stands, or the question is out."""

    action: Action
    dfid: UUID


def decide(*, tenant: str, escalation_id: UUID, person: Person, user: Any, wish: Wish) -> Decided | Problem:
    """Take one decision, or refuse it with a Problem that says what to do next.

    `person` is what policy may know; `user` is the row of the same account, from the session, never from
    the form. Raises `races.BusyError` after three lost races.
    """
    return races.run(lambda: _decide(tenant, escalation_id, person, user, wish))


def _decide(tenant: str, escalation_id: UUID, person: Person, user: Any, wish: Wish) -> Decided | Problem:
    held = holding.hold(escalation_id=escalation_id, tenant=tenant)
    if held is None:
        return Problem(status=404, code="ESCALATION_NOT_FOUND", detail="No escalation has this id.")
    journal = Journal(flow=held.flow, actor=f"user:{person.user_id}", at=held.at)
    outcome = _outcome(held, journal, person, user, wish)
    if isinstance(outcome, Problem):
        journal.add(
            events.EscalationRefused(
                escalation_id=str(held.escalation.pk), action=wish.action, code=outcome.code
            )
        )
    journal.write()
    return outcome


def _outcome(held: Held, journal: Journal, person: Person, user: Any, wish: Wish) -> Decided | Problem:
    row = held.escalation
    barred = policy.role_missing(person)
    if barred is not None:  # before anything is looked at anew: who may not decide changes nothing here
        return _refuse(held, barred.status, barred.code, barred.why)
    if row.state == State.OPEN and deadlines.is_past_deadline(held):
        deadlines.abort_expired(held, journal)
    elif row.state == State.OPEN and silences.withdraw_if_over(held=held, journal=journal):
        return _refuse(held, 409, "SILENCE_OVER", "The agent has spoken again, or nobody watches it now.")
    elif row.state == State.OPEN:
        journal.add(*waiting.stop_overdue(escalation=row, at=journal.at))
        revised = revising.revise_if_drifted(
            escalation=row,
            flow=held.flow,
            agent=held.agent,
            journal=journal,
            proposes=wish.action is Action.MODIFY,
        )
        if revised is not None:
            return _refuse(
                held, 409, "EVIDENCE_CHANGED", f"The evidence has changed: {revised.why}. Look again."
            )
    shown = revising.get_shown(row)
    situation = situations.of(escalation=row, agent=held.agent, shown=shown)
    answer = policy.may(wish.action, person, situation, now_ms=moments.to_ms(held.at))
    if isinstance(answer, Denied):
        return _refuse(held, answer.status, answer.code, answer.why)
    problem = _unlike_what_was_seen(held, wish) or _incomplete(held, wish, shown, situation)
    if problem is not None:
        return problem
    order = Order(
        escalation=row, person=person, user=user, wish=wish, shown=shown, solo=answer.solo, at=journal.at
    )
    taken = actions.take(order=order, flow=held.flow, agent=held.agent, journal=journal)
    if isinstance(taken, Problem):
        return taken
    if taken.resolves:
        _resolve(row, wish.action, journal)
        sign_and_store(order=order, taken=taken, journal=journal)
    return Decided(action=wish.action, dfid=held.flow.dfid)


def _unlike_what_was_seen(held: Held, wish: Wish) -> Problem | None:
    """What you saw is what you signed: hash, version and impact must be those in force."""
    row = held.escalation
    if len(wish.evidence_hash) != len(row.evidence_hash) or not _is_lower_hex(wish.evidence_hash):
        return _refuse(held, 400, "HASH_UNREADABLE", "evidence_hash must be the 64 lower-case digits shown.")
    if wish.evidence_hash != row.evidence_hash:
        return _refuse(held, 409, "EVIDENCE_CHANGED", "This is not the evidence in force. Look again.")
    if wish.version != row.version:
        return _refuse(held, 409, "VERSION_CHANGED", "The escalation has changed since. Look again.")
    if wish.impact != row.impact:
        return _refuse(held, 409, "IMPACT_CHANGED", f"The impact is {row.impact} now. Look again.")
    return None


def _incomplete(
    held: Held, wish: Wish, shown: Mapping[str, Any], situation: policy.Situation
) -> Problem | None:
    impact = situation.impact
    missing = policy.reason_missing(wish.action, impact, wish.justification)
    if missing is not None:
        return _refuse(held, 400, "JUSTIFICATION_MISSING", missing)
    unstated = policy.statement_missing(wish.action, situation, is_stated=wish.no_effect)
    if unstated is not None:
        return _refuse(held, 400, "STATEMENT_MISSING", unstated)
    needs_typing = policy.is_typed_again(wish.action, impact)
    if needs_typing and wish.typed_again.strip() != shown["type_again"].strip():
        return _refuse(held, 400, "TYPE_AGAIN", f"Type {shown['type_again']} again, exactly as shown.")
    return None


def _resolve(row: Escalation, action: Action, journal: Journal) -> None:
    journal.add(*waiting.stop(escalation=row, at=journal.at, why=Closing.DECIDED))
    row.state, row.resolved_at, row.resolution = State.RESOLVED, journal.at, action.value
    row.version += 1
    row.save(update_fields=["state", "resolved_at", "resolution", "version"])


def _refuse(held: Held, status: int, code: str, detail: str) -> Problem:
    return Problem(status=status, code=code, detail=detail, dfid=str(held.flow.dfid))


def _is_lower_hex(text: str) -> bool:
    return bool(text) and set(text) <= set("0123456789abcdef")
