"""Families of flows: who may open a child, and how large a family gets."""

from typing import Any

import pytest

from runtime.contracts.states import AgentRole, AgentStatus
from runtime.kernel import flow_tree
from runtime.kernel.flow_tree import Delegation, Refusal


def delegation(**changes: Any) -> Delegation:
    return Delegation(
        **{
            "parent_agent": "strategist",
            "parent_role": AgentRole.STRATEGIST,
            "parent_status": AgentStatus.ACTIVE,
            "may_delegate_to": ("trader",),
            "child_agent": "trader",
            "ancestors_open": True,
            "parent_depth": 0,
            "open_children": 0,
            "open_family": 0,
            **changes,
        }
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"child_agent": "strategist", "may_delegate_to": ()},
        {"child_agent": "strategist", "parent_role": AgentRole.EXECUTOR},
        {"parent_status": AgentStatus.PASSIVE},
        {"parent_depth": flow_tree.MAX_DEPTH - 1},
        {"open_children": flow_tree.MAX_OPEN_CHILDREN - 1},
        {"open_family": flow_tree.MAX_OPEN_FAMILY - 1},
    ],
)
def test_a_child_may_be_opened(changes: dict[str, Any]) -> None:
    assert flow_tree.refuse(delegation(**changes)) is None


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"child_agent": "stranger"}, Refusal.NOT_DELEGATED),
        ({"may_delegate_to": ()}, Refusal.NOT_DELEGATED),
        ({"parent_role": AgentRole.EXECUTOR}, Refusal.NOT_DELEGATED),
        ({"parent_role": AgentRole.MONITOR}, Refusal.NOT_DELEGATED),
        ({"ancestors_open": False}, Refusal.PARENT_ENDED),
        ({"parent_status": AgentStatus.LOCKED}, Refusal.DELEGATOR_HELD),
        ({"parent_status": AgentStatus.SUSPENDED}, Refusal.DELEGATOR_HELD),
        ({"parent_status": AgentStatus.RETIRED}, Refusal.DELEGATOR_HELD),
        ({"parent_depth": flow_tree.MAX_DEPTH}, Refusal.TOO_DEEP),
        ({"open_children": flow_tree.MAX_OPEN_CHILDREN}, Refusal.TOO_MANY_CHILDREN),
        ({"open_family": flow_tree.MAX_OPEN_FAMILY}, Refusal.TOO_MANY_CHILDREN),
    ],
)
def test_a_child_is_refused(changes: dict[str, Any], refusal: Refusal) -> None:
    assert flow_tree.refuse(delegation(**changes)) is refusal


def test_a_stranger_learns_nothing_but_that_it_may_not() -> None:
    asked = delegation(child_agent="stranger", ancestors_open=False, parent_depth=99, open_children=99)
    assert flow_tree.refuse(asked) is Refusal.NOT_DELEGATED
