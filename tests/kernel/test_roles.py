"""What an agent's role lets its manifest hold."""

import pytest

from runtime.contracts.states import AgentRole
from runtime.kernel import roles
from tests.support import gate_cases

NOTE = gate_cases.kind(kind="NOTE", steps=[])
KINDS = {"ADJUST_POSITION": gate_cases.kind(), "NOTE": NOTE}
MONITOR, EXECUTOR, STRATEGIST = AgentRole.MONITOR, AgentRole.EXECUTOR, AgentRole.STRATEGIST


def found(role: AgentRole, **fields: object) -> list[tuple[tuple[str | int, ...], str]]:
    return [(item.place, item.message) for item in roles.misfits(role, gate_cases.manifest(**fields), KINDS)]


@pytest.mark.parametrize("role", [EXECUTOR, STRATEGIST])
def test_who_acts_may_hold_kinds_with_steps(role: AgentRole) -> None:
    assert found(role, policy_kinds=["ADJUST_POSITION", "NOTE"]) == []


def test_a_monitor_holds_kinds_without_steps_only() -> None:
    assert found(MONITOR, policy_kinds=["NOTE", "ADJUST_POSITION", "UNKNOWN"]) == [
        (("policy_kinds", 1), "ADJUST_POSITION has steps, which change the world: a MONITOR only watches")
    ]


@pytest.mark.parametrize(
    ("role", "words"), [(STRATEGIST, ""), (EXECUTOR, "an EXECUTOR"), (MONITOR, "a MONITOR")]
)
def test_only_a_strategist_delegates(role: AgentRole, words: str) -> None:
    said = [(("may_delegate_to",), f"only a STRATEGIST delegates; this agent is {words}")] if words else []
    assert found(role, policy_kinds=["NOTE"], may_delegate_to=["other"]) == said
    assert roles.may_delegate(role) == (not said)
