"""Roles, state and sessions of others: changed as shown, by whoever still is an admin, never one's own."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from audit.access.permissions import roles_of
from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.registry.models import Membership
from runtime.registry.services import people_admin
from tests.registry.test_invites import actor, code, person
from tests.support import racing


def change(user: User, *roles: Role, by: User, seen: tuple[Role, ...] = (Role.OPERATOR,)) -> User | Problem:
    return people_admin.change_roles(
        tenant="default", user_pk=user.pk, seen=seen, roles=roles, actor=actor(by)
    )


@pytest.fixture
def ada(db: None) -> User:
    return person("ada", Role.ADMIN)


@pytest.fixture
def bob(db: None) -> User:
    return person("bob", Role.OPERATOR)


def test_roles_are_changed_and_other_groups_stay(ada: User, bob: User) -> None:
    bob.groups.add(Group.objects.create(name="desk"))
    assert isinstance(change(bob, Role.SENIOR, Role.AUDITOR, by=ada), User)
    assert roles_of(bob) == {Role.SENIOR, Role.AUDITOR}
    assert bob.groups.filter(name="desk").exists()
    rows = LedgerEntry.objects.filter(kind="user:roles_changed").order_by("pk")
    # The group was given past the console: that is not what this admin did.
    assert [(row.actor, row.payload["gained"], row.payload["lost"]) for row in rows] == [
        ("system", ["desk"], []),
        (actor(ada), ["auditor", "senior"], ["operator"]),
    ]
    assert Membership.objects.get(user=bob, group="operator").until is not None
    assert isinstance(verify_database(), Whole)


def test_roles_that_changed_since_they_were_shown_are_not_overwritten(ada: User, bob: User) -> None:
    assert code(change(bob, Role.SENIOR, by=ada, seen=())) == "USER_MOVED"
    assert code(change(bob, by=ada)) == "INVALID_REQUEST"
    assert roles_of(bob) == {Role.OPERATOR}
    before = LedgerEntry.objects.count()
    assert isinstance(change(bob, Role.OPERATOR, by=ada), User)
    assert LedgerEntry.objects.count() == before


def test_nobody_changes_their_own_account(ada: User) -> None:
    person("adam", Role.ADMIN)
    own = [
        change(ada, Role.ADMIN, Role.OPERATOR, by=ada, seen=(Role.ADMIN,)),
        change(ada, Role.AUDITOR, by=ada, seen=(Role.ADMIN,)),
        people_admin.deactivate(tenant="default", user_pk=ada.pk, actor=actor(ada)),
        people_admin.end_sessions(tenant="default", user_pk=ada.pk, actor=actor(ada)),
    ]
    assert {code(answer) for answer in own} == {"SEPARATION_OF_DUTY"}
    assert roles_of(ada) == {Role.ADMIN}


def test_only_an_admin_does_it_and_only_to_somebody(ada: User, bob: User) -> None:
    assert code(change(ada, Role.AUDITOR, by=bob, seen=(Role.ADMIN,))) == "ROLE_MISSING"
    missing = people_admin.deactivate(tenant="default", user_pk=0, actor=actor(ada))
    assert code(missing) == "NOT_FOUND"


def test_a_user_is_locked_out_and_let_in_again_with_what_they_had(ada: User, bob: User) -> None:
    client = Client()
    client.force_login(bob)
    for _ in range(2):
        assert isinstance(people_admin.deactivate(tenant="default", user_pk=bob.pk, actor=actor(ada)), User)
    assert client.get("/").status_code == 302
    assert code(change(bob, Role.SENIOR, by=ada)) == "USER_MOVED"
    for _ in range(2):
        assert isinstance(people_admin.reactivate(tenant="default", user_pk=bob.pk, actor=actor(ada)), User)
    assert roles_of(User.objects.get(pk=bob.pk)) == {Role.OPERATOR}
    kinds = LedgerEntry.objects.filter(stream=actor(bob)).order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["user:added", "user:deactivated", "user:reactivated"]
    assert Membership.objects.filter(user=bob).count() == 2
    assert isinstance(verify_database(), Whole)


def test_the_sessions_of_one_user_end_and_those_of_others_stay(ada: User, bob: User) -> None:
    browsers = [Client() for _ in range(3)]
    for browser, user in zip(browsers, (bob, bob, ada), strict=True):
        browser.force_login(user)
    ended = people_admin.end_sessions(tenant="default", user_pk=bob.pk, actor=actor(ada))
    assert ended == 2
    assert [browser.get("/account/").status_code for browser in browsers] == [302, 302, 200]
    assert people_admin.end_sessions(tenant="default", user_pk=bob.pk, actor=actor(ada)) == 0
    entry = LedgerEntry.objects.get(kind="user:sessions_ended")
    assert (entry.actor, entry.payload) == (actor(ada), {"user_id": bob.pk, "sessions": 2})


def test_two_admins_who_take_each_others_role_leave_one(real_db: str) -> None:
    for turn in range(4):
        pair = [person(f"{name}{turn}", Role.ADMIN) for name in ("ada", "bob")]

        def work(number: int, pair: list[User] = pair) -> User | Problem:
            return change(pair[1 - number], Role.AUDITOR, by=pair[number], seen=(Role.ADMIN,))

        answers = racing.race(2, work)
        assert sorted(isinstance(answer, User) for answer in answers) == [False, True]
        assert sorted(Role.ADMIN in roles_of(user) for user in pair) == [False, True]


def test_of_two_changes_of_the_same_roles_one_is_refused(real_db: str) -> None:
    admins = [person(name, Role.ADMIN) for name in ("ada", "adam")]
    bob = person("bob", Role.OPERATOR)
    wanted = (Role.SENIOR, Role.AUDITOR)
    answers = racing.race(2, lambda number: change(bob, wanted[number], by=admins[number]))
    lost = [answer for answer in answers if isinstance(answer, Problem)]
    assert [answer.code for answer in lost] == ["USER_MOVED"]
    assert len(roles_of(bob)) == 1
