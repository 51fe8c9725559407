"""Histories of groups and owners that are as they were recorded, however they came about, are no finding."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import Group, User

from audit.access.roles import Role
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.registry.models import Agent, Membership, OwnerChange
from runtime.registry.services import groups, membership_history, ownership, registration, users
from runtime.resources.services import budgets
from tests.support import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return add("ada", Role.ADMIN)


def add(name: str, role: Role) -> User:
    added = users.add(tenant="default", name=name, password="a long phrase", roles=[role], actor="system")
    assert isinstance(added, User), added
    return added


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings]


def test_groups_that_come_and_go_past_the_console(ada: User) -> None:
    group = Group.objects.create(name="traders")
    for change in (ada.groups.add, ada.groups.remove, ada.groups.add):
        change(group)
        assert membership_history.note_one(ada.pk)
    assert Membership.objects.filter(user=ada, group="traders").count() == 2
    assert found() == []
    Membership.objects.filter(user=ada, group="traders", until=None).delete()
    assert found() == [f"the row of user {ada.pk} in the group traders is missing"]


def test_an_account_that_was_deactivated_keeps_its_past(ada: User) -> None:
    users.deactivate(tenant="default", name="ada", actor="system")
    assert found() == []
    now = clock.now()
    Membership.objects.update(since=now - timedelta(days=9), until=now - timedelta(days=8))
    assert [detail.split(" is ")[0] for detail in found()] == [
        f"user {ada.pk} in the group admin: since",
        f"user {ada.pk} in the group admin: until",
    ]


@pytest.mark.parametrize("group", ["traders", "senior"])
def test_a_membership_that_no_entry_records_is_found_however_old_it_says_it_is(ada: User, group: str) -> None:
    Membership.objects.create(user=ada, group=group, since=ada.date_joined)
    assert found() == [f"no entry records user {ada.pk} in the group {group}"]


def test_a_clock_that_was_set_back_makes_no_finding(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is never before the last of its stream, and so is the row that is compared with it."""
    agent = factories.desk(owner="olivia").agent
    bob, desk = add("bob", Role.ADMIN), Group.objects.create(name="desk")
    agree_on = partial(ownership.agree, tenant="default", agent_id=agent.agent_id, actor=f"user:{bob.pk}")
    budgets.refill(tenant="default", agent_id=agent.agent_id, actor="user:1", reason="drill")
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now - timedelta(minutes=5))

    for change in (groups.join, groups.leave):
        done = change(tenant="default", group_pk=desk.pk, user_pk=ada.pk, actor=f"user:{ada.pk}")
        assert isinstance(done, Group), done
    ada.groups.add(desk)
    assert membership_history.note_one(ada.pk)
    seen = registration.profile_of(agent)
    edited = registration.edit(
        tenant="default",
        agent_id=agent.agent_id,
        seen=seen,
        wanted=replace(seen, owner="bob"),
        actor=f"user:{ada.pk}",
    )
    assert isinstance(edited, Agent), edited
    agreed = agree_on(change_pk=OwnerChange.objects.get().pk)
    assert isinstance(agreed, OwnerChange), agreed
    refilled = budgets.refill(tenant="default", agent_id=agent.agent_id, actor="user:1", reason="drill")
    assert isinstance(refilled, Agent), refilled
    assert isinstance(users.deactivate(tenant="default", name="ada", actor="system"), User)

    assert found() == []
    assert Membership.objects.filter(since__lt=now - timedelta(minutes=4)).count() == 0
    assert agreed.agreed_at is not None
    assert agreed.agreed_at > now - timedelta(minutes=4)


def test_the_only_admin_changes_the_owner_at_once(ada: User) -> None:
    profile = registration.Profile(owner="ada", mission="Wait.", review_on=None)
    registered = registration.register(
        tenant="default", agent_id="solo", role="EXECUTOR", profile=profile, actor=f"user:{ada.pk}"
    )
    assert isinstance(registered, Agent), registered
    add("olivia", Role.OPERATOR)
    seen = registration.profile_of(registered)
    wanted = registration.Profile(owner="olivia", mission=seen.mission, review_on=seen.review_on)
    edited = registration.edit(
        tenant="default", agent_id="solo", seen=seen, wanted=wanted, actor=f"user:{ada.pk}"
    )
    assert not isinstance(edited, Problem), edited
    assert OwnerChange.objects.get().solo
    assert found() == []
    OwnerChange.objects.update(solo=False, agreed_by="user:999")
    assert [detail.split(" is ")[0] for detail in found()] == [
        "a change of owner of solo: agreed_by",
        "a change of owner of solo: solo",
    ]
