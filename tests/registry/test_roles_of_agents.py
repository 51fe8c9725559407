"""Roles bind at every door: a draft, its activation, a pack, and the activation of a kind."""

import textwrap
from typing import Any

import pytest

from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentRole
from runtime.packs.services import packs
from runtime.registry.models import Agent, Manifest, PolicyKind
from runtime.registry.services import kinds, manifests, registration
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
WATCHER = "watcher"
STEPS = "ADJUST_POSITION has steps, which change the world: a MONITOR only watches"
PACK = """
pack: roles
version: 1.0.0
policy_kinds:
  - &note
    kind: NOTE
    version: 1.0.0
    title: Note
    risk_tier: T0
    params_schema: {type: object}
    effect: Note
agents:
  - agent_id: watcher
    role: MONITOR
    owner: desk
    mission: Watch
    manifest: {version: 1.0.0, policy_kinds: [NOTE]}
"""
STEP = "    steps: [{id: note, executor: simulated}]\n"


@pytest.fixture
def admin() -> str:
    return f"user:{factories.user('ada', 'admin').pk}"


@pytest.fixture
def other() -> str:
    return f"user:{factories.user('alan', 'admin').pk}"


def register(role: AgentRole = AgentRole.MONITOR) -> Agent:
    made = registration.register(
        tenant=factories.TENANT,
        agent_id=WATCHER,
        role=role.value,
        profile=registration.Profile(owner="ada", mission="Watch", review_on=None),
        actor="user:1",
    )
    assert isinstance(made, Agent), made
    return made


def draft(actor: str, **fields: Any) -> Manifest | Problem:
    given = gate_cases.manifest(**{"version": "1.0.0", "limits": {"max_notional_cents": 1}, **fields})
    return manifests.draft(
        tenant=factories.TENANT, agent_id=WATCHER, text=given.to_bytes().decode(), actor=actor
    )


def activate(version: str, actor: str) -> Manifest | Problem:
    return manifests.activate(
        tenant=factories.TENANT,
        agent_id=WATCHER,
        version=version,
        seen_active="",
        reason="Agreed.",
        actor=actor,
    )


def load(text: str) -> packs.Loaded | packs.PackRefused:
    return packs.load(text=text, source="roles.yaml", activate=True, actor="system")


def said(answer: Any) -> list[str]:
    assert isinstance(answer, Problem), answer
    return [item.message for item in answer.violations] or [answer.detail]


def test_a_monitors_draft_with_a_kind_that_has_steps_is_refused(admin: str) -> None:
    factories.policy_kind(gate_cases.kind())
    register()
    assert said(draft(admin)) == [STEPS]
    assert not Manifest.objects.exists()


@pytest.mark.parametrize("role", [AgentRole.EXECUTOR, AgentRole.MONITOR])
def test_only_a_strategists_draft_delegates(role: AgentRole, admin: str) -> None:
    factories.policy_kind(gate_cases.kind(steps=[]))
    factories.desk(agent_id="helper")
    register(role)
    assert said(draft(admin, may_delegate_to=["helper"]))[0].startswith("only a STRATEGIST delegates")
    Agent.objects.filter(agent_id=WATCHER).update(role=AgentRole.STRATEGIST)
    assert isinstance(draft(admin, may_delegate_to=["helper"]), Manifest)


def test_a_draft_whose_kind_has_got_steps_meanwhile_is_not_activated(admin: str, other: str) -> None:
    row = factories.policy_kind(gate_cases.kind(version="1.0.0", steps=[]))
    register()
    assert isinstance(draft(admin), Manifest)
    PolicyKind.objects.filter(pk=row.pk).update(active=False)
    factories.policy_kind(gate_cases.kind(version="1.1.0"))
    assert STEPS in said(activate("1.0.0", other))[0]
    assert Agent.objects.get(agent_id=WATCHER).active_manifest is None


def test_a_kind_that_a_monitor_holds_gets_no_steps(admin: str) -> None:
    assert isinstance(load(PACK), packs.Loaded)
    lines = PACK.split("&note\n", 1)[1].split("agents:")[0].replace("1.0.0", "1.1.0") + STEP
    text = textwrap.dedent(lines)
    drafted = kinds.draft(tenant=factories.TENANT, text=text, actor=admin, kind="NOTE")
    assert said(drafted) == ["watcher may propose it, and a MONITOR changes nothing"]


def test_a_pack_is_refused_by_the_same_words() -> None:
    found = load(PACK.replace("agents:\n", f"{STEP}agents:\n"))
    assert isinstance(found, packs.PackRefused)
    assert len(found.problems) == 1
    assert found.problems[0].endswith(
        "agents[0].manifest.policy_kinds[0]: NOTE has steps, which change the world: a MONITOR only watches"
    )
    delegating = load(PACK.replace("[NOTE]}", "[NOTE], may_delegate_to: [watcher]}"))
    assert isinstance(delegating, packs.PackRefused)
    assert "only a STRATEGIST delegates; this agent is a MONITOR" in delegating.problems[0]
    assert not PolicyKind.objects.exists()


def test_a_pack_cannot_give_an_agent_that_exists_another_role() -> None:
    """Its row keeps its role, so what the pack says of it does not widen its manifest."""
    assert isinstance(load(PACK), packs.Loaded)
    widened = PACK.replace("role: MONITOR", "role: EXECUTOR").replace(
        "manifest: {version: 1.0.0", "manifest: {version: 1.1.0"
    )
    assert isinstance(load(widened), packs.Loaded)
    acting = widened.replace("version: 1.0.0\n    title", "version: 1.1.0\n    title").replace(
        "agents:\n", f"{STEP}agents:\n"
    )
    found = load(acting)
    assert isinstance(found, packs.PackRefused)
    assert len(found.problems) == 2
    assert Agent.objects.get(agent_id=WATCHER).role == AgentRole.MONITOR


def test_a_pack_that_gives_a_monitors_kind_steps_is_refused() -> None:
    assert isinstance(load(PACK), packs.Loaded)
    only_kind = PACK.split("agents:")[0].replace("1.0.0", "1.1.0") + STEP
    found = load(only_kind)
    assert isinstance(found, packs.PackRefused)
    assert "watcher may propose it, and a MONITOR changes nothing" in found.problems[0]
