"""People: added with roles, given passwords, locked out at once, and recorded."""

import io
import sys

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from audit.access.permissions import roles_of
from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.registry.services import users

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


def add(
    name: str = "ann", password: str = PASSWORD, roles: tuple[Role, ...] = (Role.OPERATOR,)
) -> User | Problem:
    return users.add(tenant="default", name=name, password=password, roles=roles, actor="system")


def change(name: str, password: str) -> User | Problem:
    return users.set_password(tenant="default", name=name, password=password, actor="system")


def test_a_new_person_has_roles_and_an_entry() -> None:
    user = add(roles=(Role.ADMIN, Role.OPERATOR))
    assert isinstance(user, User)
    assert roles_of(user) == {Role.ADMIN, Role.OPERATOR}
    assert not user.is_superuser
    entry = LedgerEntry.objects.get(kind="user:added")
    assert entry.stream == f"user:{user.pk}"
    assert entry.payload == {"user_id": user.pk, "roles": ["admin", "operator"]}


@pytest.mark.parametrize(
    ("name", "password", "roles", "code"),
    [
        ("ann", PASSWORD, (Role.OPERATOR,), "USER_EXISTS"),
        ("bob", PASSWORD, (), "INVALID_REQUEST"),
        ("bob", "short", (Role.OPERATOR,), "INVALID_REQUEST"),
        ("bob", "1234567890", (Role.OPERATOR,), "INVALID_REQUEST"),
        ("b b", PASSWORD, (Role.OPERATOR,), "INVALID_REQUEST"),
        ("", PASSWORD, (Role.OPERATOR,), "INVALID_REQUEST"),
        ("b" * 151, PASSWORD, (Role.OPERATOR,), "INVALID_REQUEST"),
    ],
)
def test_a_person_that_cannot_be_added(name: str, password: str, roles: tuple[Role, ...], code: str) -> None:
    add()
    refused = add(name, password, roles)
    assert isinstance(refused, Problem)
    assert refused.code == code
    assert User.objects.count() == 1


def test_a_new_password_ends_the_sessions_of_the_old() -> None:
    user = add()
    assert isinstance(user, User)
    client = Client()
    client.force_login(user)
    assert isinstance(change("ann", "another long password"), User)
    assert not client.session.exists(client.cookies["sessionid"].value)
    assert authenticate(username="ann", password="another long password") == user
    assert authenticate(username="ann", password=PASSWORD) is None
    assert isinstance(change("ann", "short"), Problem)
    assert isinstance(change("nobody", PASSWORD), Problem)


def test_a_person_is_locked_out_in_every_browser_and_others_stay() -> None:
    browsers = []
    for name in ("ann", "bob"):
        user = add(name)
        assert isinstance(user, User)
        client = Client()
        client.force_login(user)
        browsers.append(client)
    for _ in range(2):
        assert isinstance(users.deactivate(tenant="default", name="ann", actor="user:9"), User)
    ann, bob = browsers
    assert not ann.session.exists(ann.cookies["sessionid"].value)
    assert bob.session.exists(bob.cookies["sessionid"].value)
    assert authenticate(username="ann", password=PASSWORD) is None
    assert LedgerEntry.objects.get(kind="user:deactivated").actor == "user:9"
    assert isinstance(users.deactivate(tenant="default", name="nobody", actor="system"), Problem)


def run(*arguments: str, stdin: str = "", monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_commands_walk_a_persons_life(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*arguments: str, stdin: str = "") -> str:
        return run(*arguments, stdin=stdin, monkeypatch=monkeypatch)

    roles = ("--role", "operator", "--role", "admin")
    assert call("add_user", "ann", *roles, "--password-stdin", stdin=f"{PASSWORD}\n") == ""
    ann = User.objects.get(username="ann")
    assert roles_of(ann) == {Role.OPERATOR, Role.ADMIN}
    assert ann.check_password(PASSWORD)
    assert call("set_password", "ann", "--password-stdin", stdin="another long password\r\n") == ""
    assert User.objects.get(username="ann").check_password("another long password")
    assert call("deactivate_user", "ann") == ""
    assert not User.objects.get(username="ann").is_active


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (("add_user", "ann", "--role", "operator", "--password-stdin"), ""),
        (("add_user", "ann", "--role", "operator"), PASSWORD),
        (("add_user", "ann", "--password-stdin"), PASSWORD),
        (("add_user", "ann", "--role", "god", "--password-stdin"), PASSWORD),
        (("add_user", "ann", "--role", "operator", "--password-stdin"), "short"),
        (("set_password", "nobody", "--password-stdin"), PASSWORD),
        (("deactivate_user", "nobody"), ""),
    ],
)
def test_the_commands_say_what_is_wrong(
    arguments: tuple[str, ...], stdin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=r"\w"):
        run(*arguments, stdin=stdin, monkeypatch=monkeypatch)
    assert not User.objects.exists()
