"""A database from before memberships were remembered, with people in it, and what becomes of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from audit import events, ledger
from audit.access.roles import Role
from audit.models import Leaf, LedgerEntry
from audit.verification import findings
from audit.verification.tree_check import TreeCheck
from runtime.core import clock
from runtime.maintenance.services import sealing, sweeper
from runtime.registry.models import Membership
from runtime.registry.queries import group_members
from runtime.registry.services import dual_control, groups

BEFORE = [
    ("escalations", "0003_silence_watchdog"),
    ("runtime", "0009_silence_watchdog"),
    ("audit", "0002_roles"),
]
ADDED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def migrate(targets: Sequence[tuple[str, str]]) -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets))


def newest() -> list[tuple[str, str]]:
    return [(app, name) for app, name in MigrationExecutor(connection).loader.graph.leaf_nodes()]


@pytest.fixture
def old(empty_db: str) -> None:
    """The tables as they were, without the rows that the newer ones began with."""
    migrate(BEFORE)


def record(user: User, *said: events.Event, at: datetime) -> None:
    with transaction.atomic():
        ledger.append_to(tenant="default", stream=f"user:{user.pk}", actor="system", at=at, events=said)


def add(name: str, *roles: Role) -> User:
    """As `users.add` did: an account, its groups and one entry, and no row of a membership."""
    user = User.objects.create(username=name)
    user.groups.set([Group.objects.get_or_create(name=role.value)[0] for role in roles])
    record(user, events.UserAdded(user_id=user.pk, roles=tuple(sorted(roles))), at=ADDED)
    return user


def deactivate(user: User, *, at: datetime) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)
    record(user, events.UserDeactivated(user_id=user.pk), at=at)


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings]


def rows_of(user: User) -> list[tuple[str, datetime, datetime | None]]:
    rows = Membership.objects.filter(user=user).order_by("group", "since")
    return list(rows.values_list("group", "since", "until"))


@pytest.mark.slow
def test_an_upgraded_database_is_whole_and_keeps_what_people_held(old: None) -> None:
    """Somebody left minutes before it, a shell gave and took roles, and a group that is no role is left."""
    ada, left = add("ada", Role.ADMIN, Role.OPERATOR), add("left", Role.ADMIN)
    bob, carl = add("bob", Role.OPERATOR), add("carl", Role.OPERATOR, Role.AUDITOR)
    desk = Group.objects.create(name="desk")
    gone_at = clock.now() - timedelta(minutes=5)
    deactivate(left, at=gone_at)
    ada.groups.add(desk)
    bob.groups.add(Group.objects.get(name="senior"))
    carl.groups.remove(Group.objects.get(name="auditor"))
    migrate(newest())

    assert rows_of(ada) == [("admin", ADDED, None), ("operator", ADDED, None)]
    assert rows_of(left) == [("admin", ADDED, gone_at)]
    assert not dual_control.others(actor=f"user:{ada.pk}", at=clock.now()).is_now
    assert found() == [
        "roles is ['operator', 'senior'], but the ledger recorded ['operator']",
        "roles is ['operator'], but the ledger recorded ['auditor', 'operator']",
    ]

    for change in (groups.leave, groups.join):
        done = change(tenant="default", group_pk=desk.pk, user_pk=ada.pk, actor=f"user:{ada.pk}")
        assert isinstance(done, Group), done
    assert sweeper.sweep().memberships == 2
    assert found() == []
    assert [(group, until is None) for group, _, until in rows_of(ada)] == [
        ("admin", True),
        ("desk", False),
        ("desk", True),
        ("operator", True),
    ]
    assert group_members.groups_of(user_pk=carl.pk, at=clock.now()) == {"auditor", "operator"}


@pytest.mark.slow
def test_entries_of_before_the_tree_come_into_it(old: None) -> None:
    ada = add("ada", Role.ADMIN)
    migrate(newest())
    later = add("later", Role.ADMIN)
    sealing.seal_now()
    sealed = {leaf.entry_id for leaf in Leaf.objects.all()}
    rows = LedgerEntry.objects.filter(stream__in=[f"user:{ada.pk}", f"user:{later.pk}"])
    assert {entry.pk for entry in rows} <= sealed
    assert len(rows) == 2
    assert list(TreeCheck("default").run()) == []


@pytest.mark.django_db
def test_entries_that_cannot_be_read_or_name_nobody_do_not_stop_the_upgrade() -> None:
    ada = add("ada", Role.ADMIN)
    stranger = User(pk=ada.pk + 1000)
    record(stranger, events.UserAdded(user_id=stranger.pk, roles=("admin",)), at=ADDED)
    odd = [b"xx", b"[]", b'{"payload": []}', b'{"payload": {}}', b'{"payload": {"user_id": []}}']
    with connection.cursor() as cursor:
        for seq, body in enumerate(odd, start=1):
            cursor.execute(
                "INSERT INTO audit_ledgerentry (tenant, stream, seq, kind, at, actor, body, prev_hash, hash) "
                "VALUES ('default', 'user:0', %s, 'user:added', %s, 'system', %s, %s, %s)",
                [seq, ADDED, body, bytes(32), bytes(32)],
            )
    migration = import_module("runtime.migrations.0014_remember_who_held_which_role")
    migration.begin(apps, SimpleNamespace(connection=connection))
    assert list(Membership.objects.values_list("user_id", "group")) == [(ada.pk, "admin")]
