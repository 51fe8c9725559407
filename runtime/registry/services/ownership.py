"""Another owner for an agent: one admin asks, another agrees; alone in an installation, it is recorded.

Whoever owns an agent does not decide on what it asks for, so that to leave is to gain a right.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from audit import actors, events, ledger
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.registry.models import Agent, OwnerChange
from runtime.registry.queries import owners
from runtime.registry.services import agents, dual_control


def ask(*, agent: Agent, owner: str, actor: str, at: datetime) -> Sequence[events.Event] | Problem:
    """Ask for another owner; where no other admin is there to agree, it is done at once.

    In the caller's transaction, which holds the agent and appends the entries with the same `at`. 409 where a
    change waits.
    """
    if owners.get_asked(agent=agent) is not None:
        said = "A change of owner is already pending. Agree to it or drop it first."
        return Problem(code=ProblemCode.OWNER_CHANGE_OPEN, detail=said)
    change = OwnerChange.objects.create(
        agent=agent, owner_before=agent.owner, owner_after=owner, asked_by=actor, asked_at=at
    )
    if dual_control.others(actor=actor, at=at).is_now:
        return [_make(agent, change, actor=actor, at=at, solo=True)]
    return [
        events.AgentOwnerChangeAsked(
            agent_id=agent.agent_id, owner_before=change.owner_before, owner_after=owner
        )
    ]


def may_agree(*, change: OwnerChange, actor: str) -> Problem | None:
    """What speaks against `actor` agreeing to a change; the same answer is for the page and for the write."""
    at = clock.now()
    who = dual_control.bound_to(author=change.asked_by, actor=actor, at=at)
    if not who:
        return None
    alone = dual_control.others(actor=actor, at=at)
    said = f"{who} requested this: another admin must agree.{alone.words}"
    return None if alone.is_now else Problem(code=ProblemCode.SEPARATION_OF_DUTY, detail=said)


def agree(*, tenant: str, agent_id: str, change_pk: int, actor: str) -> OwnerChange | Problem:
    """Make a change that another admin asked for."""

    def work(agent: Agent, change: OwnerChange, at: datetime) -> events.Event | Problem:
        barred = may_agree(change=change, actor=actor)
        if barred is not None:
            return barred
        return _make(agent, change, actor=actor, at=at, solo=change.asked_by == actor)

    return _on_change(tenant, agent_id, change_pk, actor, work)


def drop(*, tenant: str, agent_id: str, change_pk: int, actor: str) -> OwnerChange | Problem:
    """Leave the owner as it is; any admin may."""

    def work(agent: Agent, change: OwnerChange, at: datetime) -> events.Event | Problem:
        change.dropped_by, change.dropped_at = actor, at
        change.save(update_fields=["dropped_by", "dropped_at"])
        return events.AgentOwnerChangeDropped(agent_id=agent_id, owner_after=change.owner_after)

    return _on_change(tenant, agent_id, change_pk, actor, work)


@transactions.retried
def _on_change(
    tenant: str,
    agent_id: str,
    change_pk: int,
    actor: str,
    work: Callable[[Agent, OwnerChange, datetime], events.Event | Problem],
) -> OwnerChange | Problem:
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    change = owners.get_asked(agent=agent)
    if change is None or change.pk != change_pk:
        said = "This change has already been agreed to or dropped. Review the agent again."
        return Problem(code=ProblemCode.OWNER_CHANGE_CLOSED, detail=said)
    at = ledger.time_of_next(tenant=tenant, stream=actors.agent(agent_id), at=clock.now())
    done = work(agent, change, at)
    if isinstance(done, Problem):
        return done
    ledger.append_to(tenant=tenant, stream=actors.agent(agent_id), actor=actor, at=at, events=[done])
    return change


def _make(
    agent: Agent, change: OwnerChange, *, actor: str, at: datetime, solo: bool
) -> events.AgentOwnerChanged:
    change.agreed_by, change.agreed_at, change.solo = actor, at, solo
    change.save(update_fields=["agreed_by", "agreed_at", "solo"])
    agent.owner = change.owner_after
    agent.save(update_fields=["owner"])
    return events.AgentOwnerChanged(
        agent_id=agent.agent_id,
        owner_before=change.owner_before,
        owner_after=change.owner_after,
        asked_by=change.asked_by,
        solo=solo,
    )
