"""The inbox: what waits for whom, since when and where, at the cost of one query on every other page."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.access.roles import Role
from escalations.contracts import Action
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, CircuitState
from runtime.core import clock
from runtime.epochs.models import Epoch
from runtime.execution.models import Circuit
from runtime.guards.models import GuardRun
from runtime.registry.models import Agent, Key, OwnerChange
from runtime.registry.services import credentials, kinds, manifests
from runtime.state.models import MemoryItem
from tests.escalations.test_replacing import called
from tests.support import (
    calibration_story,
    demo_scenes,
    factories,
    gate_cases,
    guard_rounds,
    poisoned_memory,
)
from tests.web.test_pages import code_in, text_of
from tests.web.test_separation_of_duty import add

pytestmark = pytest.mark.django_db
SECTION = re.compile(r'<h2 id="([a-z]+)">')
ADMINS = {"manifests", "kinds", "maps", "owners", "memory", "guards", "keys", "due"}


@pytest.fixture
def desk() -> factories.Desk:
    """One of everything that can wait."""
    desk = factories.desk()
    at, agent = clock.now(), desk.agent
    manifest = gate_cases.manifest(version="9.0.0").to_bytes().decode()
    made = manifests.draft(tenant="default", agent_id=agent.agent_id, text=manifest, actor="user:901")
    assert not isinstance(made, Problem), made
    factories.configure_target()
    kind = gate_cases.kind(version="9.0.0").to_bytes().decode()
    drafted = kinds.draft(tenant="default", text=kind, actor="user:901")
    assert not isinstance(drafted, Problem), drafted
    calibration_story.draft(agent.agent_id)
    OwnerChange.objects.create(
        agent=agent, owner_before="a", owner_after="b", asked_by="user:901", asked_at=at
    )
    guard_rounds.configure()
    run = guard_rounds.flagged(desk).run
    assert run is not None
    other = factories.desk(agent_id="other").escalate().proposal
    assert other is not None
    GuardRun.objects.create(
        proposal=other,
        guard=run.guard,
        state="FAILED",
        next_at=at,
        created_at=at,
        finished_at=at,
        detail=demo_scenes.HOSTILE[:200],
    )
    left = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    factories.decide(left, factories.user("who-aborted", "operator"), Action.ABORT)
    poisoned_memory.write(poisoned_memory.desk("web-reader", "WRITE"))
    Circuit.objects.create(target="broker", state=CircuitState.OPEN, failures=5, retry_at=at, changed_at=at)
    key = credentials.issue_agent_key(tenant="default", agent_id=agent.agent_id, actor="system")
    assert isinstance(key, credentials.IssuedKey)
    Key.objects.filter(key_id=key.key_id).update(created_at=at - timedelta(days=91))
    Agent.objects.filter(pk=agent.pk).update(review_on=at.date())
    return desk


def sections(client: Client) -> set[str]:
    return set(SECTION.findall(text_of(client, "/inbox/").split("<main")[1]))


def badge(client: Client, path: str = "/") -> int:
    found = re.search(r'(\d+)<span class="sr">waiting</span>', text_of(client, path))
    return int(found[1]) if found else 0


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.ADMIN, ADMINS | {"circuits"}),
        (Role.SENIOR, {"doubts", "reviews", "circuits"}),
        (Role.OPERATOR, {"doubts", "reviews"}),
        (Role.AUDITOR, set()),
    ],
)
def test_each_role_sees_what_it_can_deal_with(desk: factories.Desk, role: Role, expected: set[str]) -> None:
    client = add("reader", role)
    assert sections(client) == expected
    assert badge(client) == len(expected)
    page = text_of(client, "/inbox/")
    assert "Nothing waits for you" in page if not expected else "Nothing waits" not in page
    assert not code_in(page)
    for link in re.findall(r'<li>\s*<a href="([^"]+)"', page.split("<main")[1]):
        assert client.get(link).status_code == 200, link


def test_who_wrote_a_draft_is_not_asked_to_activate_it_unless_alone(desk: factories.Desk) -> None:
    ada = add("ada", Role.ADMIN)
    me = f"user:{User.objects.get(username='ada').pk}"
    desk.agent.manifests.filter(version="9.0.0").update(created_by=me)
    OwnerChange.objects.update(asked_by=me)
    assert {"manifests", "owners"} <= sections(ada)  # she is the only admin
    with_others = badge(ada)
    bob = add("bob", Role.ADMIN)
    assert not {"manifests", "owners"} & sections(ada)
    assert badge(ada) == with_others - 2
    assert {"manifests", "owners"} <= sections(bob)


def test_what_is_over_or_not_yet_due_waits_no_more(desk: factories.Desk) -> None:
    ada, at = add("ada", Role.ADMIN), clock.now()
    Agent.objects.update(review_on=at.date() + timedelta(days=1))
    Key.objects.update(last_used_at=at - timedelta(days=89))
    Circuit.objects.update(state=CircuitState.CLOSED, retry_at=None)
    GuardRun.objects.filter(state="FAILED").update(finished_at=at - timedelta(hours=25))
    MemoryItem.objects.update(quarantined=False)
    assert sections(ada) == {"manifests", "kinds", "maps", "owners"}
    assert badge(ada) == 4
    Agent.objects.update(status=AgentStatus.RETIRED)
    assert "manifests" not in sections(ada)


def test_an_admin_is_told_of_a_restored_backup() -> None:
    ada, olga = add("ada", Role.ADMIN), add("olga", Role.OPERATOR)
    Epoch.objects.filter(ended_at=None).update(restored_at=clock.now())
    assert sections(ada) == {"recovery"}
    assert badge(ada) == 1
    assert sections(olga) == set()


def test_a_long_list_is_cut_and_says_so(desk: factories.Desk) -> None:
    at = clock.now()
    Circuit.objects.bulk_create(
        Circuit(target=f"t{n:03}", state=CircuitState.OPEN, retry_at=at, changed_at=at + timedelta(seconds=n))
        for n in range(30)
    )
    page = text_of(add("sue", Role.SENIOR), "/inbox/")
    assert "Showing the oldest 20 of 31." in page
    assert "t018," in page
    assert "t019," not in page


def test_more_that_waits_costs_no_more_queries(desk: factories.Desk) -> None:
    ada, counted = add("ada", Role.ADMIN), []
    for turn in range(2):
        Circuit.objects.create(
            target=f"more-{turn}", state=CircuitState.OPEN, retry_at=clock.now(), changed_at=clock.now()
        )
        with CaptureQueriesContext(connection) as captured:
            ada.get("/inbox/")
        counted.append(len(captured))
    assert counted[0] == counted[1]
