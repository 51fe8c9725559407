"""Families of flows: who may open a child under whose flow, and how large a family gets (DIR paper, 4)."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from runtime.contracts.states import AgentRole, AgentStatus
from runtime.kernel import roles

# A root and four levels below: strategy, plan, order, part, correction. Each level is one more round of
# locks when a flow high up ends.
MAX_DEPTH = 4
# What one strategist can have in hand at once; a longer list is worked off in turns.
MAX_OPEN_CHILDREN = 20
# The whole family ends in one transaction, so its size bounds the longest one.
MAX_OPEN_FAMILY = 100
_DELEGATING = (AgentStatus.ACTIVE, AgentStatus.PASSIVE)


class Refusal(StrEnum):
    """Why a child may not be opened. NOT_DELEGATED must look like an unknown flow to the caller."""

    NOT_DELEGATED = "NOT_DELEGATED"
    DELEGATOR_HELD = "DELEGATOR_HELD"
    PARENT_ENDED = "PARENT_ENDED"
    TOO_DEEP = "TOO_DEEP"
    TOO_MANY_CHILDREN = "TOO_MANY_CHILDREN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """What is known when an agent asks for a child. `may_delegate_to` is the parent's active manifest's."""

    parent_agent: str
    parent_role: AgentRole
    parent_status: AgentStatus
    may_delegate_to: Collection[str]
    child_agent: str
    ancestors_open: bool
    parent_depth: int
    open_children: int
    open_family: int


def refuse(asked: Delegation) -> Refusal | None:
    """The first reason against opening the child; None where it may be opened."""
    delegates = roles.may_delegate(asked.parent_role) and asked.child_agent in asked.may_delegate_to
    if asked.child_agent != asked.parent_agent and not delegates:
        return Refusal.NOT_DELEGATED
    if not asked.ancestors_open:
        return Refusal.PARENT_ENDED
    if asked.parent_status not in _DELEGATING:
        return Refusal.DELEGATOR_HELD
    if asked.parent_depth >= MAX_DEPTH:
        return Refusal.TOO_DEEP
    if asked.open_children >= MAX_OPEN_CHILDREN or asked.open_family >= MAX_OPEN_FAMILY:
        return Refusal.TOO_MANY_CHILDREN
    return None
