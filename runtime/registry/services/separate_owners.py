"""Who owns an agent gains by what it may do: another admin gives it more."""

from datetime import datetime

from audit import actors
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.kernel import separation
from runtime.registry.models import Agent
from runtime.registry.queries import group_members, owners, people
from runtime.registry.services import dual_control
from runtime.registry.services.dual_control import Approved


def allow(*, agent: Agent, actor: str, at: datetime, task: str) -> Approved | Problem:
    """Whether `actor` (`user:7`) may do `task` ("raise its level") for an agent; pages and writes ask here.

    403 SEPARATION_OF_DUTY for who owns it, or did lately, or changed its owner. The only admin there is may
    all the same, which the entry records as `solo`.
    """
    tie = _tie(agent, actor, at)
    if not tie:
        return Approved(solo=False)
    alone = dual_control.others(actor=actor, at=at)
    if alone.is_now:
        return Approved(solo=True)
    detail = f"{tie}: another admin must {task}.{alone.words}"
    return Problem(code=ProblemCode.SEPARATION_OF_DUTY, detail=detail)


def _tie(agent: Agent, actor: str, at: datetime) -> str:
    """A sentence on what binds a person to an agent; empty where nothing does."""
    names = set(people.names_of([actor]).values())
    pk = actor.removeprefix(actors.USER)
    if names:
        names |= group_members.groups_of(user_pk=int(pk), at=at)
    if agent.owner in names:
        return "You own this agent"
    days = f"less than {separation.DAYS} days ago"
    for change in owners.list_recent(agent=agent, at=at):
        if change.owner_before in names:
            return f"You owned this agent {days}"
        if actor in (change.asked_by, change.agreed_by):
            return f"You changed who owns this agent {days}"
    return ""
