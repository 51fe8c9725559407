"""Nobody rids themselves of the other pair of eyes: what was held or owned last week still counts."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F
from django.http import HttpResponse
from django.test import Client

from audit.access.roles import Role
from escalations.models import Decision, Escalation
from runtime.flows.models import Intent
from runtime.registry.models import Agent, Membership, OwnerChange
from runtime.registry.services import users
from tests.support import demo_scenes
from tests.web.test_pages import text_of

pytestmark = pytest.mark.django_db
BACKEND = "allauth.account.auth_backends.AuthenticationBackend"
AGENT = "ambitious-trader"
WEEK = timedelta(days=7)


@pytest.fixture
def case() -> Escalation:
    """Something of low impact above the agent's limit."""
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of(AGENT), "ADJUST_POSITION", demo_scenes.order("BUY", 10, "NVDA", 121_400)
    )
    row = Escalation.objects.get(pk=said["escalation_id"])
    assert row.impact == "LOW_IMPACT"
    return row


def add(name: str, *roles: Role) -> Client:
    """A person, added as by the command, who has signed in."""
    made = users.add(
        tenant="default", name=name, password="correct horse battery", roles=roles, actor="system"
    )
    assert isinstance(made, User), made
    client = Client()
    client.force_login(made, backend=BACKEND)
    return client


def own(name: str) -> None:
    Agent.objects.filter(agent_id=AGENT).update(owner=name)


def decide(client: Client, case: Escalation, action: str = "OVERRIDE") -> HttpResponse:
    """What an attentive person sends."""
    row = Escalation.objects.get(pk=case.pk)
    return client.post(  # type: ignore[return-value]
        f"/escalations/{row.pk}/decision/",
        {
            "action": action,
            "evidence_hash": row.evidence_hash,
            "version": str(row.version),
            "impact": row.impact,
            "justification": "The desk has agreed to it.",
        },
    )


def refused(answer: HttpResponse) -> bool:
    return answer.status_code == 403 and b"SEPARATION_OF_DUTY" in answer.content


def a_week_passes() -> None:
    Membership.objects.update(since=F("since") - WEEK, until=F("until") - WEEK)
    OwnerChange.objects.update(agreed_at=F("agreed_at") - WEEK)


def test_locking_the_only_other_operator_out_makes_nobody_the_only_one(case: Escalation) -> None:
    ada = add("ada", Role.OPERATOR, Role.ADMIN)
    add("bob", Role.OPERATOR)
    own("ada")
    assert refused(decide(ada, case))

    call_command("deactivate_user", "bob", stderr=StringIO())
    assert refused(decide(ada, case))
    assert Intent.objects.count() == 0

    a_week_passes()
    assert decide(ada, case).status_code == 302
    assert Decision.objects.get(escalation=case).solo


def test_taking_a_role_in_a_shell_makes_nobody_the_only_one(case: Escalation) -> None:
    ada = add("ada", Role.OPERATOR, Role.ADMIN)
    add("bob", Role.OPERATOR)
    own("ada")
    User.objects.get(username="bob").groups.clear()
    assert refused(decide(ada, case))


def test_leaving_the_group_that_owns_the_agent_frees_nobody(case: Escalation) -> None:
    ada = add("ada", Role.SENIOR, Role.OPERATOR)
    add("bob", Role.OPERATOR)
    own("senior")
    User.objects.get(username="ada").groups.get(name="senior").user_set.clear()
    assert refused(decide(ada, case))
    assert "You own this agent" in text_of(ada, f"/escalations/{case.pk}/")


def test_the_only_one_there_ever_was_decides_and_the_record_says_so(case: Escalation) -> None:
    ada = add("ada", Role.OPERATOR, Role.ADMIN)
    add("carl", Role.AUDITOR)
    own("ada")
    assert decide(ada, case).status_code == 302
    assert Decision.objects.get(escalation=case).solo


def test_stopping_needs_nobody_else(case: Escalation) -> None:
    ada = add("ada", Role.OPERATOR)
    add("bob", Role.OPERATOR)
    own("ada")
    assert decide(ada, case, "ABORT").status_code == 302


def hand_over(client: Client, name: str) -> None:
    """Make somebody else the owner, by the form of the agent's page."""
    agent = Agent.objects.get(agent_id=AGENT)
    said = {"owner": agent.owner, "mission": agent.mission, "review_on": ""}
    sent = {**said, "owner": name, **{f"seen_{key}": value for key, value in said.items()}}
    assert client.post(f"/agents/{AGENT}/edit/", sent).status_code == 302


def test_handing_the_agent_over_frees_nobody_for_seven_days(case: Escalation) -> None:
    ada, bob = add("ada", Role.OPERATOR, Role.ADMIN), add("bob", Role.OPERATOR)
    add("carl", Role.AUDITOR)
    own("ada")
    hand_over(ada, "carl")  # there is no other admin to agree
    assert Agent.objects.get(agent_id=AGENT).owner == "carl"
    assert OwnerChange.objects.get().solo
    assert refused(decide(ada, case))
    page = text_of(ada, f"/escalations/{case.pk}/")
    assert "You owned this agent less than 7 days ago" in page
    assert "bob can decide this now." in page
    assert "ada can from" in page

    page = text_of(bob, f"/agents/{AGENT}/")
    assert "Owner changed from <b>ada</b> to <b>carl</b> by ada" in page
    assert "ada cannot decide on this agent's escalations until" in page
    a_week_passes()
    assert decide(ada, case).status_code == 302


def test_another_admin_agrees_and_is_bound_too(case: Escalation) -> None:
    ada, bob = add("ada", Role.OPERATOR, Role.ADMIN), add("bob", Role.OPERATOR, Role.ADMIN)
    carl = add("carl", Role.OPERATOR)
    own("ada")
    hand_over(ada, "admin")
    change = OwnerChange.objects.get()
    page = text_of(ada, f"/agents/{AGENT}/")
    assert "You requested this: another admin must agree." in page
    assert "/agree/" not in page
    assert ada.post(f"/agents/{AGENT}/owner/{change.pk}/agree/").status_code == 403
    assert Agent.objects.get(agent_id=AGENT).owner == "ada"

    assert "/agree/" in text_of(bob, f"/agents/{AGENT}/")
    assert bob.post(f"/agents/{AGENT}/owner/{change.pk}/agree/").status_code == 302
    assert Agent.objects.get(agent_id=AGENT).owner == "admin"
    own("carl")
    assert refused(decide(ada, case))
    assert refused(decide(bob, case))
    assert refused(decide(carl, case))
    page = text_of(bob, f"/escalations/{case.pk}/")
    assert "Nobody can decide this now" in page
    assert "bob can from" in page
    assert "carl cannot decide while they own the agent." in page
    assert decide(carl, case, "ABORT").status_code == 302


def test_an_admin_keeps_the_owner_as_it_is(case: Escalation) -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.ADMIN)
    own("ada")
    hand_over(ada, "bob")
    change = OwnerChange.objects.get()
    assert bob.post(f"/agents/{AGENT}/owner/{change.pk}/drop/").status_code == 302
    assert bob.post(f"/agents/{AGENT}/owner/{change.pk}/drop/").status_code == 409
    assert Agent.objects.get(agent_id=AGENT).owner == "ada"


def test_the_page_says_from_when_the_last_one_may_decide_alone(case: Escalation) -> None:
    ada = add("ada", Role.OPERATOR, Role.ADMIN)
    add("bob", Role.OPERATOR)
    own("ada")
    call_command("deactivate_user", "bob", stderr=StringIO())
    page = text_of(ada, f"/escalations/{case.pk}/")
    assert "No other deciders are left." in page
    assert "you can decide alone" in page
