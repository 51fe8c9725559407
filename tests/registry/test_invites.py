"""Invite links: one use, 72 hours, one link at a time, and nothing of them in the ledger."""

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from audit import actors
from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.registry.models import Membership
from runtime.registry.queries import invitations, people
from runtime.registry.services import dual_control, invites, people_admin, users
from tests.support import racing

PASSWORD = "correct horse battery"


def person(name: str, *roles: Role) -> User:
    added = users.add(tenant="default", name=name, password=PASSWORD, roles=roles, actor="system")
    assert isinstance(added, User), added
    return added


def actor(user: User) -> str:
    return actors.user(user.pk)


def invited(by: User, name: str = "nina", roles: tuple[Role, ...] = (Role.OPERATOR,)) -> invites.Invite:
    answer = invites.add(tenant="default", name=name, roles=roles, actor=actor(by))
    assert isinstance(answer, invites.Invite), answer
    return answer


def accept(token: str, password: str = PASSWORD) -> User | Problem:
    return invites.accept(tenant="default", token=token, password=password)


def code(answer: object) -> str:
    assert isinstance(answer, Problem), answer
    return answer.code


@pytest.fixture
def ada(db: None) -> User:
    return person("ada", Role.ADMIN)


def test_an_invited_user_has_roles_no_password_and_two_entries(ada: User) -> None:
    made = invited(ada)
    nina = User.objects.get(username="nina")
    assert not nina.has_usable_password()
    rows = LedgerEntry.objects.filter(stream=actor(nina)).order_by("seq")
    assert [(row.kind, row.actor) for row in rows] == [
        ("user:added", actor(ada)),
        ("user:invited", actor(ada)),
    ]
    secret = made.token.rpartition("-")[2]
    assert all(secret.encode() not in bytes(row.body) for row in LedgerEntry.objects.all())
    assert made.token not in repr(made)
    assert isinstance(accept(made.token), User)
    assert authenticate(username="nina", password=PASSWORD) == nina
    last = LedgerEntry.objects.filter(stream=actor(nina)).latest("seq")
    assert (last.actor, last.payload) == (actor(nina), {"user_id": nina.pk, "by_invite": True})
    assert isinstance(verify_database(), Whole)


def test_a_link_works_once_and_a_weak_password_uses_up_nothing(ada: User) -> None:
    token = invited(ada).token
    assert code(accept(token, "short")) == "INVALID_REQUEST"
    assert isinstance(accept(token), User)
    assert code(accept(token, "another long password")) == "INVITE_INVALID"
    assert authenticate(username="nina", password="another long password") is None


def test_a_link_ends_after_72_hours(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    made = invited(ada)
    assert settings.PASSWORD_RESET_TIMEOUT == 72 * 3600
    assert abs(made.expires_at - clock.now() - timedelta(hours=72)) < timedelta(minutes=1)
    kept = invites._links

    def later(hours: int) -> None:
        moment = datetime.now() + timedelta(hours=hours)  # noqa: DTZ005  # as Django's own, which is local
        monkeypatch.setattr(kept, "_now", lambda: moment)

    later(71)
    assert isinstance(invites.find(made.token), User)
    later(73)
    assert code(accept(made.token)) == "INVITE_INVALID"


def test_a_newer_link_ends_the_older_one_the_password_and_the_sessions(ada: User) -> None:
    first = invited(ada)
    second = invites.renew(tenant="default", user_pk=first.user.pk, actor=actor(ada))
    assert isinstance(second, invites.Invite)
    assert code(accept(first.token)) == "INVITE_INVALID"
    nina = accept(second.token)
    assert isinstance(nina, User)
    browser = Client()
    browser.force_login(nina)
    third = invites.renew(tenant="default", user_pk=nina.pk, actor=actor(ada))
    assert isinstance(third, invites.Invite)
    assert not Session.objects.exists()
    assert authenticate(username="nina", password=PASSWORD) is None
    invitations = LedgerEntry.objects.filter(kind="user:invited").order_by("id")
    resets = [row.payload.get("reset") for row in invitations]
    assert resets == [False, False, True]


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "-",
        "1",
        "1-",
        "0-a-b",
        "99999999999999999999-a-b",
        "\u0661-a-b",
        "1-a-b\n",
        "1-zzzzzz-" + "f" * 32,
    ],
)
def test_a_link_that_nobody_made(ada: User, token: str) -> None:
    assert code(invites.find(token)) == "INVITE_INVALID"


def test_a_link_of_one_user_does_not_work_for_another(ada: User) -> None:
    one, two = invited(ada, "one"), invited(ada, "two")
    _, _, rest = one.token.partition("-")
    assert code(invites.find(f"{two.user.pk}-{rest}")) == "INVITE_INVALID"
    assert code(invites.find(one.token[:-1] + ("0" if one.token[-1] != "0" else "1"))) == "INVITE_INVALID"


def test_a_deactivated_user_has_no_link(ada: User) -> None:
    made = invited(ada)
    assert isinstance(people_admin.deactivate(tenant="default", user_pk=made.user.pk, actor=actor(ada)), User)
    assert code(accept(made.token)) == "INVITE_INVALID"
    assert code(invites.renew(tenant="default", user_pk=made.user.pk, actor=actor(ada))) == "USER_MOVED"
    assert isinstance(people_admin.reactivate(tenant="default", user_pk=made.user.pk, actor=actor(ada)), User)
    assert Membership.objects.filter(user=made.user, until=None).count() == 1
    assert isinstance(verify_database(), Whole)


@pytest.mark.parametrize(
    ("name", "roles", "expected"),
    [
        ("ADA", (Role.OPERATOR,), "NAME_TAKEN"),
        ("Operator", (Role.OPERATOR,), "NAME_TAKEN"),
        ("b b", (Role.OPERATOR,), "INVALID_REQUEST"),
        ("", (Role.OPERATOR,), "INVALID_REQUEST"),
        ("<b>", (Role.OPERATOR,), "INVALID_REQUEST"),
        ("b" * 151, (Role.OPERATOR,), "INVALID_REQUEST"),
        ("bob", (), "INVALID_REQUEST"),
    ],
)
def test_a_user_that_cannot_be_invited(ada: User, name: str, roles: tuple[Role, ...], expected: str) -> None:
    before = User.objects.count()
    assert code(invites.add(tenant="default", name=name, roles=roles, actor=actor(ada))) == expected
    assert User.objects.count() == before


def test_who_is_no_admin_by_now_invites_nobody(ada: User) -> None:
    bob = person("bob", Role.OPERATOR)
    refused = invites.add(tenant="default", name="nina", roles=[Role.ADMIN], actor=actor(bob))
    assert code(refused) == "ROLE_MISSING"
    assert code(invites.renew(tenant="default", user_pk=ada.pk, actor=actor(bob))) == "ROLE_MISSING"
    assert code(invites.renew(tenant="default", user_pk=ada.pk, actor=actor(ada))) == "SEPARATION_OF_DUTY"


def test_whom_an_admin_invited_is_no_second_pair_of_eyes_for_days(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = invited(ada, "puppet", (Role.ADMIN,)).user

    def check(author: User, by: User) -> dual_control.Approved | Problem:
        return dual_control.check(author=actor(author), actor=actor(by), what="1.1.0")

    # The only other admin is one whom she made: she is as alone as before, and it is recorded so.
    assert check(ada, ada) == dual_control.Approved(solo=True)
    assert code(check(ada, puppet)) == "SEPARATION_OF_DUTY"
    bob = person("bob", Role.ADMIN)
    assert code(check(ada, ada)) == "SEPARATION_OF_DUTY"
    assert code(check(puppet, ada)) == "SEPARATION_OF_DUTY"
    assert check(ada, bob) == dual_control.Approved(solo=False)
    assert check(puppet, bob) == dual_control.Approved(solo=False)
    a_week_later = clock.now() + timedelta(days=8)
    monkeypatch.setattr(clock, "now", lambda: a_week_later)
    assert check(ada, puppet) == dual_control.Approved(solo=False)


def test_a_new_link_for_the_other_admin_makes_nobody_the_only_one(ada: User) -> None:
    bob = person("bob", Role.ADMIN)
    assert isinstance(invites.renew(tenant="default", user_pk=bob.pk, actor=actor(ada)), invites.Invite)
    assert not dual_control.others(actor=actor(ada), at=clock.now()).is_now
    refused = dual_control.check(author=actor(ada), actor=actor(bob), what="1.1.0")
    assert code(refused) == "SEPARATION_OF_DUTY"
    last = invitations.last_of(user_pk=bob.pk)
    assert last is not None
    assert last.payload["reset"]


def test_of_two_who_use_a_link_at_once_one_is_first(real_db: str) -> None:
    token = invited(person("ada", Role.ADMIN)).token
    answers = racing.race(4, lambda number: accept(token, f"{PASSWORD} {number}"))
    assert [isinstance(answer, User) for answer in answers].count(True) == 1
    assert LedgerEntry.objects.filter(kind="user:password_changed").count() == 1


def test_the_state_of_an_account(ada: User) -> None:
    made = invited(ada)
    at = clock.now()
    states = {item.name: item.state for item in people.list_people(at=at)}
    assert states == {"ada": people.AccountState.ACTIVE, "nina": people.AccountState.INVITED}
    users.deactivate(tenant="default", name="nina", actor="system")
    shown = people.get_person(user_pk=made.user.pk, at=at)
    assert shown is not None
    assert shown.state is people.AccountState.DEACTIVATED
    assert people.get_person(user_pk=0, at=at) is None
