"""People and groups in the browser: owners can be chosen, groups filled, and nobody slips out of one."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent, Membership
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of
from tests.web.test_separation_of_duty import AGENT, a_week_passes, add, decide, hand_over, refused

pytestmark = pytest.mark.django_db
DESK = "trading-desk"


@pytest.fixture
def case() -> Escalation:
    """Something of low impact above the agent's limit; the pack's owner is a group that nobody made."""
    demo_scenes.load_pack()
    order = demo_scenes.order("BUY", 10, "NVDA", 121_400)
    said = demo_scenes.propose(demo_scenes.session_of(AGENT), "ADJUST_POSITION", order)
    return Escalation.objects.get(pk=said["escalation_id"])


def put_in(client: Client, name: str, group: str = DESK) -> int:
    made, user = Group.objects.get(name=group), User.objects.get(username=name)
    return client.post(f"/people/groups/{made.pk}/members/", {"user": user.pk}).status_code


def take_out(client: Client, name: str, group: str = DESK) -> int:
    made, user = Group.objects.get(name=group), User.objects.get(username=name)
    return client.post(f"/people/groups/{made.pk}/members/{user.pk}/leave/").status_code


def members(group: str = DESK) -> list[str]:
    return list(User.objects.filter(groups__name=group).values_list("username", flat=True))


def changes() -> list[tuple[str, str, list[str], list[str]]]:
    """The entries about groups: whose, by whom, gained and lost."""
    rows = LedgerEntry.objects.filter(kind="user:roles_changed").order_by("pk")
    return [(row.stream, row.actor, row.payload["gained"], row.payload["lost"]) for row in rows]


def test_the_owner_that_a_pack_names_can_be_chosen(case: Escalation) -> None:
    ada = add("ada", Role.ADMIN)
    made = LedgerEntry.objects.filter(kind="group:added", stream="system")
    assert {"name": DESK} in [entry.payload for entry in made]
    page = text_of(ada, "/register-agent/")
    field = page[page.index('<select id="owner"') : page.index("</select>", page.index('<select id="owner"'))]
    for name in (DESK, "ada", "admin"):
        assert f'<option value="{name}">{name}</option>' in field
    sent = {"agent_id": "scout", "role": "MONITOR", "owner": DESK, "mission": "Watch."}
    assert ada.post("/register-agent/", sent).status_code == 302
    assert Agent.objects.get(agent_id="scout").owner == DESK
    assert re.search(rf'<option value="{DESK}" selected>', text_of(ada, f"/agents/{AGENT}/edit/"))
    refused_form = ada.post("/register-agent/", {**sent, "agent_id": "other", "owner": "<b>nobody</b>"})
    assert refused_form.status_code == 422
    assert "&lt;b&gt;nobody&lt;/b&gt; (not an active user or group)" in refused_form.content.decode()


def test_who_is_put_into_the_owning_group_is_bound_and_the_ledger_says_by_whom(case: Escalation) -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.OPERATOR)
    add("carl", Role.OPERATOR)
    me, them = User.objects.get(username="ada").pk, User.objects.get(username="bob").pk
    assert put_in(ada, "bob") == 302
    assert put_in(ada, "bob") == 302  # once more changes nothing
    assert changes() == [(f"user:{them}", f"user:{me}", [DESK], [])]
    assert Membership.objects.filter(user=them, group=DESK, until=None).count() == 1
    assert sweeper.sweep().memberships == 0
    assert refused(decide(bob, case))
    assert "You own this agent" in text_of(bob, f"/escalations/{case.pk}/")
    ledger = text_of(ada, "/ledger/")
    assert f"User {them} gained {DESK}." in ledger
    assert "noticed" not in ledger
    assert isinstance(verify_database(), Whole)


def test_nobody_is_taken_out_of_a_group_that_owns_an_agent(case: Escalation) -> None:
    ada, bob = add("ada", Role.ADMIN, Role.OPERATOR), add("bob", Role.OPERATOR)
    put_in(ada, "bob")
    put_in(ada, "ada")
    page = text_of(ada, "/people/")
    assert "Members cannot be removed while it owns an agent" in page
    assert "/leave/" not in page
    assert take_out(ada, "bob") == 409
    assert take_out(ada, "ada") == 409
    assert sorted(members()) == ["ada", "bob"]
    assert refused(decide(bob, case))


def test_who_leaves_after_the_agent_has_another_owner_stays_bound_for_seven_days(case: Escalation) -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.OPERATOR)
    add("carl", Role.OPERATOR)
    put_in(ada, "bob")
    Agent.objects.exclude(agent_id=AGENT).update(owner="carl")
    hand_over(ada, "carl")  # there is no other admin to agree
    assert "/leave/" in text_of(ada, "/people/")
    assert take_out(ada, "bob") == 302
    assert members() == []
    assert refused(decide(bob, case))
    a_week_passes()
    assert decide(bob, case).status_code == 302


def test_a_group_that_is_about_to_own_an_agent_is_closed_too(case: Escalation) -> None:
    ada = add("ada", Role.ADMIN)
    add("adam", Role.ADMIN)
    assert ada.post("/people/groups/", {"name": "risk desk"}).status_code == 302
    put_in(ada, "adam", "risk desk")
    hand_over(ada, "risk desk")
    assert Agent.objects.get(agent_id=AGENT).owner == DESK  # it waits for the other admin
    assert take_out(ada, "adam", "risk desk") == 409
    assert members("risk desk") == ["adam"]


def test_roles_are_not_given_or_taken_here(case: Escalation) -> None:
    ada = add("ada", Role.ADMIN)
    add("bob", Role.OPERATOR)
    for group in ("operator", "admin"):
        assert put_in(ada, "bob", group) == 403
        assert take_out(ada, "bob", group) == 403
    assert members("admin") == ["ada"]
    assert members("operator") == ["bob"]
    assert 'Add<span class="sr"> operator' not in text_of(ada, "/people/")


@pytest.mark.parametrize(
    ("name", "status"),
    [("", 422), ("x" * 81, 422), ("a\nb", 422), ("Operator", 409), ("ADA", 409), ("Trading-Desk", 409)],
)
def test_no_group_is_called_like_a_role_a_person_or_another_group(
    case: Escalation, name: str, status: int
) -> None:
    ada = add("ada", Role.ADMIN)
    before = Group.objects.count()
    assert ada.post("/people/groups/", {"name": name}).status_code == status
    assert Group.objects.count() == before


def test_what_was_changed_in_a_shell_before_is_not_laid_at_the_admins_door(case: Escalation) -> None:
    ada, bob = add("ada", Role.ADMIN), User.objects.get(pk=add("bob", Role.OPERATOR).session["_auth_user_id"])
    bob.groups.add(Group.objects.create(name="elsewhere"))
    put_in(ada, "bob")
    actors = [(actor, gained) for _, actor, gained, _ in changes()]
    me = User.objects.get(username="ada").pk
    assert actors == [("system", ["elsewhere"]), (f"user:{me}", [DESK])]


def test_others_read_and_change_nothing(case: Escalation) -> None:
    add("bob", Role.OPERATOR)
    desk = Group.objects.get(name=DESK)
    for role in (Role.OPERATOR, Role.AUDITOR):
        client = add(f"reads-{role.value}", role)
        page = text_of(client, "/people/")
        assert DESK in page
        assert "bob" in page
        assert "Create group" not in page
        assert put_in(client, "bob") == 403
        assert client.post("/people/groups/", {"name": "mine"}).status_code == 403
    ada = add("ada", Role.ADMIN)
    for path in (f"/people/groups/{desk.pk}/members/", "/people/groups/999999/members/"):
        assert ada.post(path, {"user": "x"}).status_code == 404
    User.objects.filter(username="bob").update(is_active=False)
    assert put_in(ada, "bob") == 422
    assert take_out(ada, "bob") in {409, 422}
    assert members() == []


def test_more_groups_cost_no_more_queries(case: Escalation) -> None:
    client, counted = sign_in(Role.ADMIN), []
    for made in range(2):
        Group.objects.create(name=f"desk-{made}")
        with CaptureQueriesContext(connection) as captured:
            client.get("/people/")
        counted.append(len(captured))
    assert counted[0] == counted[1]
