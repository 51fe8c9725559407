"""Agents in the registry: an owner who exists, and every change with what was before."""

from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.registry.models import Agent
from runtime.registry.services import registration
from tests.support import factories

pytestmark = pytest.mark.django_db
PLAIN = registration.Profile(owner="ada", mission="Trade.", review_on=None)


@pytest.fixture(autouse=True)
def _people() -> None:
    factories.user("ada", "admin")


def ada() -> str:
    """The only admin, as the ledger names her."""
    return f"user:{User.objects.get(username='ada').pk}"


def profile(**fields: Any) -> registration.Profile:
    return registration.Profile(**{**vars(PLAIN), **fields})


def registered(agent_id: str = "scout", role: str = "MONITOR", **fields: Any) -> Agent | Problem:
    return registration.register(
        tenant="default", agent_id=agent_id, role=role, profile=profile(**fields), actor="user:1"
    )


def edited(seen: registration.Profile = PLAIN, agent_id: str = "scout", **fields: Any) -> Agent | Problem:
    return registration.edit(
        tenant="default", agent_id=agent_id, seen=seen, wanted=profile(**fields), actor=ada()
    )


def wrong_fields(answer: object) -> list[str]:
    assert isinstance(answer, Problem), answer
    assert answer.status == 422
    return [violation.pointer for violation in answer.violations]


def test_a_new_agent_has_no_manifest_and_is_recorded() -> None:
    agent = registered(review_on=date(2027, 1, 1))

    assert isinstance(agent, Agent)
    assert agent.active_manifest is None
    assert agent.review_on == date(2027, 1, 1)
    entry = LedgerEntry.objects.get(kind="agent:registered", stream="agent:scout")
    assert entry.actor == "user:1"
    assert entry.payload == {"agent_id": "scout", "role": "MONITOR", "owner": "ada"}


def test_without_a_manifest_its_proposals_are_refused() -> None:
    desk = factories.desk()
    Agent.objects.update(active_manifest=None)

    answer = desk.propose(desk.open())
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "UNAUTHORIZED")


def test_an_id_is_taken_once() -> None:
    registered()
    answer = registered()

    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (409, "AGENT_EXISTS")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"agent_id": "no spaces"}, ["agent_id"]),
        ({"agent_id": ""}, ["agent_id"]),
        ({"agent_id": "-"}, ["agent_id"]),
        ({"agent_id": "a\n"}, ["agent_id"]),
        ({"role": "KING"}, ["role"]),
        ({"owner": ""}, ["owner"]),
        ({"owner": "nobody"}, ["owner"]),
        ({"owner": "a\x00"}, ["owner"]),
        ({"mission": ""}, ["mission"]),
        ({"mission": "x" * 2001}, ["mission"]),
        ({"mission": "\x00"}, ["mission"]),
        ({"agent_id": "", "role": "", "owner": "", "mission": ""}, ["agent_id", "role", "owner", "mission"]),
    ],
)
def test_says_which_field_is_wrong_and_stores_nothing(fields: dict[str, str], wrong: list[str]) -> None:
    assert wrong_fields(registered(**fields)) == wrong
    assert not Agent.objects.exists()


def test_an_owner_is_a_group_too_and_nobody_who_was_deactivated() -> None:
    gone = factories.user("gone", "operator")
    gone.is_active = False
    gone.save()

    assert isinstance(registered(owner="operator"), Agent)
    assert wrong_fields(registered("other", owner="gone")) == ["owner"]


def test_an_edit_records_what_was_before() -> None:
    registered()
    answer = edited(owner="operator", mission="Watch.", review_on=date(2027, 2, 3))

    assert isinstance(answer, Agent)
    entry = LedgerEntry.objects.get(kind="agent:edited")
    assert entry.actor == ada()
    assert entry.payload == {
        "agent_id": "scout",
        "owner_before": "ada",
        "owner_after": "operator",
        "mission_before": "Trade.",
        "mission_after": "Watch.",
        "review_before": None,
        "review_after": "2027-02-03",
    }


def test_an_edit_that_changes_nothing_is_not_recorded() -> None:
    registered()
    assert isinstance(edited(), Agent)
    assert not LedgerEntry.objects.filter(kind="agent:edited").exists()


def test_an_edit_over_what_somebody_else_changed_is_refused() -> None:
    registered()
    edited(mission="Watch.")
    answer = edited(mission="Trade more.")

    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (409, "AGENT_MOVED")
    assert Agent.objects.get().mission == "Watch."


def test_an_owner_of_a_pack_may_stay_but_not_come() -> None:
    registered()
    Agent.objects.update(owner="trading desk")
    seen = profile(owner="trading desk")

    assert isinstance(edited(seen, owner="trading desk", mission="Watch."), Agent)
    assert wrong_fields(edited(seen, owner="another desk")) == ["owner"]


def test_an_unknown_agent_is_a_problem() -> None:
    answer = edited(agent_id="ghost")
    assert isinstance(answer, Problem)
    assert answer.status == 404
