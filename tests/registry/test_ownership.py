"""Another owner: one admin asks, another agrees, and who was it or did it is remembered."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.registry.models import Agent, OwnerChange
from runtime.registry.queries import owners
from runtime.registry.services import ownership, registration
from tests.support import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    return factories.desk(owner="ada").agent


@pytest.fixture
def ada() -> str:
    return actor(factories.user("ada", "admin", "operator"))


def actor(user: User) -> str:
    return f"user:{user.pk}"


def edit(agent: Agent, by: str, **changes: Any) -> Agent | Problem:
    seen = registration.profile_of(Agent.objects.get(pk=agent.pk))
    wanted = registration.Profile(
        **{"owner": seen.owner, "mission": seen.mission, "review_on": seen.review_on, **changes}
    )
    return registration.edit(tenant="default", agent_id="trader", seen=seen, wanted=wanted, actor=by)


def owner(agent: Agent) -> str:
    return Agent.objects.get(pk=agent.pk).owner


def entries() -> list[str]:
    rows = LedgerEntry.objects.filter(stream="agent:trader", kind__startswith="agent:").order_by("seq")
    return list(rows.exclude(kind="agent:registered").values_list("kind", flat=True))


def agree(change: OwnerChange, by: str) -> OwnerChange | Problem:
    return ownership.agree(tenant="default", agent_id="trader", change_pk=change.pk, actor=by)


def drop(change: OwnerChange, by: str) -> OwnerChange | Problem:
    return ownership.drop(tenant="default", agent_id="trader", change_pk=change.pk, actor=by)


def code(answer: Any) -> tuple[int, str]:
    assert isinstance(answer, Problem), answer
    return answer.status, answer.code


def test_another_admin_has_to_agree(agent: Agent, ada: str) -> None:
    bob = actor(factories.user("bob", "admin"))
    assert isinstance(edit(agent, ada, owner="bob", mission="Buy."), Agent)
    assert (owner(agent), Agent.objects.get(pk=agent.pk).mission) == ("ada", "Buy.")
    change = owners.get_asked(agent=agent)
    assert change is not None
    assert code(agree(change, ada)) == (403, "SEPARATION_OF_DUTY")

    assert isinstance(agree(change, bob), OwnerChange)
    assert owner(agent) == "bob"
    assert entries() == ["agent:owner_change_asked", "agent:edited", "agent:owner_changed"]
    changed = LedgerEntry.objects.get(kind="agent:owner_changed")
    assert changed.actor == bob
    assert changed.payload == {
        "agent_id": "trader",
        "owner_before": "ada",
        "owner_after": "bob",
        "asked_by": ada,
        "solo": False,
    }
    (row,) = owners.list_recent(agent=agent, at=clock.now())
    assert (row.owner_before, row.asked_by, row.agreed_by, row.solo) == ("ada", ada, bob, False)


def test_the_only_admin_changes_it_at_once_and_it_is_recorded(agent: Agent, ada: str) -> None:
    factories.user("bob")
    assert isinstance(edit(agent, ada, owner="bob"), Agent)
    assert owner(agent) == "bob"
    assert entries() == ["agent:owner_changed", "agent:edited"]
    assert LedgerEntry.objects.get(kind="agent:owner_changed").payload["solo"] is True
    assert OwnerChange.objects.get().solo


def test_one_change_waits_at_a_time_and_nothing_is_stored_by_halves(agent: Agent, ada: str) -> None:
    bob = actor(factories.user("bob", "admin"))
    edit(agent, ada, owner="bob")
    assert code(edit(agent, bob, owner="operator", mission="Other.")) == (409, "OWNER_CHANGE_OPEN")
    assert Agent.objects.get(pk=agent.pk).mission == "Trade."
    assert isinstance(edit(agent, bob, mission="Other."), Agent)


def test_a_change_is_dropped_by_any_admin_and_closed_for_good(agent: Agent, ada: str) -> None:
    bob = actor(factories.user("bob", "admin"))
    edit(agent, ada, owner="bob")
    change = owners.get_asked(agent=agent)
    assert change is not None
    assert isinstance(drop(change, ada), OwnerChange)
    assert code(agree(change, bob)) == (409, "OWNER_CHANGE_CLOSED")
    assert code(drop(change, bob)) == (409, "OWNER_CHANGE_CLOSED")
    assert owner(agent) == "ada"
    assert entries()[-1] == "agent:owner_change_dropped"
    assert owners.list_recent(agent=agent, at=clock.now()) == []
    missing = ownership.drop(tenant="default", agent_id="nobody", change_pk=change.pk, actor=ada)
    assert code(missing) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "broken",
    [
        {"agreed_by": "user:1"},
        {"agreed_by": "user:1", "agreed": True},
        {"agreed_by": "user:2", "agreed": True, "solo": True},
        {"agreed": True},
        {"dropped": True},
        {"dropped_by": "user:2"},
        {"agreed": True, "agreed_by": "user:2", "dropped": True, "dropped_by": "user:2"},
        {"owner_after": "ada"},
    ],
)
def test_the_database_keeps_two_people_in_every_change(agent: Agent, broken: dict[str, Any]) -> None:
    at = clock.now()
    fields = {"owner_after": "bob", **broken}
    for name in ("agreed", "dropped"):
        if fields.pop(name, False):
            fields[f"{name}_at"] = at
    with pytest.raises(IntegrityError), transaction.atomic():
        OwnerChange.objects.create(agent=agent, owner_before="ada", asked_by="user:1", asked_at=at, **fields)


def test_the_database_keeps_one_open_change_of_an_agent(agent: Agent) -> None:
    at = clock.now()
    OwnerChange.objects.create(agent=agent, owner_before="a", owner_after="b", asked_by="user:1", asked_at=at)
    with pytest.raises(IntegrityError), transaction.atomic():
        OwnerChange.objects.create(
            agent=agent, owner_before="a", owner_after="c", asked_by="user:1", asked_at=at
        )


def test_verification_reads_the_owner_from_the_entry_of_its_change(ada: str) -> None:
    bob = actor(factories.user("bob", "admin"))
    profile = registration.Profile(owner="ada", mission="Trade.", review_on=None)
    made = registration.register(
        tenant="default", agent_id="trader", role="EXECUTOR", profile=profile, actor=ada
    )
    assert isinstance(made, Agent), made
    edit(made, ada, owner="bob", mission="Buy.")
    change = owners.get_asked(agent=made)
    assert change is not None
    agree(change, bob)
    assert "agent.owner" not in str(findings.verify_all())
    Agent.objects.update(owner="ada")
    assert "agent.owner" in str(findings.verify_all())
