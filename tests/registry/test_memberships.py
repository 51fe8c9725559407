"""Who held which role: remembered through commands, noticed where somebody changed it past them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import F

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.core import clock
from runtime.maintenance.services import sweeper
from runtime.registry.models import Membership
from runtime.registry.queries import group_members
from runtime.registry.services import dual_control, users
from tests.support import factories

pytestmark = pytest.mark.django_db
WEEK = timedelta(days=7)


def add(name: str, *roles: Role) -> User:
    made = users.add(
        tenant="default",
        name=name,
        password="correct horse battery",
        roles=roles or (Role.OPERATOR,),
        actor="system",
    )
    assert isinstance(made, User)
    return made


def deactivate(name: str) -> None:
    assert isinstance(users.deactivate(tenant="default", name=name, actor="system"), User)


def holders() -> dict[int, bool]:
    """By user, whether they hold the role now."""
    found = group_members.list_holders(groups=[Role.OPERATOR, Role.SENIOR], at=clock.now())
    return {pk: until is None for pk, until in found.items()}


def a_week_passes() -> None:
    Membership.objects.update(since=F("since") - WEEK, until=F("until") - WEEK)


def test_a_role_that_was_held_counts_for_seven_days() -> None:
    ann, bob, carl = add("ann"), add("bob", Role.SENIOR, Role.ADMIN), add("carl", Role.AUDITOR)
    deactivate("bob")
    assert holders() == {ann.pk: True, bob.pk: False}
    assert group_members.groups_of(user_pk=bob.pk, at=clock.now()) == {"senior", "admin"}
    assert carl.pk not in holders()
    a_week_passes()
    assert holders() == {ann.pk: True}


def test_what_is_changed_past_the_console_counts_before_and_after_it_is_noticed() -> None:
    ann, bob = add("ann"), add("bob")
    bob.groups.clear()
    assert holders() == {ann.pk: True, bob.pk: False}
    bob.groups.add(Group.objects.get_or_create(name="desk")[0])
    assert sweeper.sweep().memberships == 1
    assert sweeper.sweep().memberships == 0
    assert holders() == {ann.pk: True, bob.pk: False}
    assert group_members.groups_of(user_pk=bob.pk, at=clock.now()) == {"operator", "desk"}
    noticed = LedgerEntry.objects.get(kind="user:roles_changed")
    assert (noticed.stream, noticed.actor) == (f"user:{bob.pk}", "system")
    assert noticed.payload == {
        "user_id": bob.pk,
        "gained": ["desk"],
        "lost": ["operator"],
        "done_here": False,
    }


def test_commands_leave_nothing_to_notice() -> None:
    add("ann", Role.ADMIN, Role.OPERATOR)
    add("bob")
    deactivate("bob")
    assert sweeper.sweep().memberships == 0
    rows = [(row.group, row.until is None) for row in Membership.objects.all()]
    assert sorted(rows) == [("admin", True), ("operator", False), ("operator", True)]


def test_a_role_that_no_sweep_had_noticed_counts_for_whoever_is_deactivated() -> None:
    """Else the admin who is left would be the only one at once."""
    ann, bob = add("ann", Role.ADMIN), add("bob")
    bob.groups.add(Group.objects.get_or_create(name="admin")[0])
    deactivate("bob")
    assert group_members.groups_of(user_pk=bob.pk, at=clock.now()) == {"admin", "operator"}
    assert not dual_control.others(actor=f"user:{ann.pk}", at=clock.now()).is_now
    said = LedgerEntry.objects.filter(stream=f"user:{bob.pk}").order_by("seq")
    assert [(entry.kind, entry.actor) for entry in said][1:] == [
        ("user:roles_changed", "system"),
        ("user:deactivated", "system"),
    ]
    assert findings.verify_all().findings == []


def test_a_role_given_again_begins_anew() -> None:
    bob = factories.user("bob")
    sweeper.sweep()
    bob.is_active = False
    bob.save()
    sweeper.sweep()
    User.objects.filter(pk=bob.pk).update(is_active=True)
    sweeper.sweep()
    assert sorted(row.until is None for row in Membership.objects.all()) == [False, True]
    assert holders() == {bob.pk: True}


def test_the_database_keeps_one_open_row_that_ends_after_it_began() -> None:
    ann, at = add("ann"), clock.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=ann, group="operator", since=at)
    with pytest.raises(IntegrityError), transaction.atomic():
        Membership.objects.create(user=ann, group="x", since=at, until=at - WEEK)
