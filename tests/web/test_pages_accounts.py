"""People in the browser: invited, given roles, locked out and signed out; and one's own account."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.access.permissions import roles_of
from audit.access.roles import Role
from audit.models import LedgerEntry
from tests.support import demo_scenes, factories
from tests.web.test_pages import code_in, sign_in, text_of
from tests.web.test_separation_of_duty import add

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def invite(client: Client, name: str = "nina", *roles: str) -> str:
    """The path of the link that the page shows."""
    answer = client.post("/people/invite/", {"name": name, "roles": list(roles) or ["operator"]})
    assert answer.status_code == 200, answer.content
    found = re.search(r'data-copy="http://testserver(/invite/[^"]+)"', answer.content.decode())
    assert found
    return found[1]


def set_password(path: str, first: str = PASSWORD, second: str = PASSWORD) -> tuple[int, str]:
    answer = Client().post(path, {"password1": first, "password2": second})
    return answer.status_code, answer.content.decode()


def test_an_admin_invites_and_the_person_sets_the_password() -> None:
    ada = add("ada", Role.ADMIN)
    link = invite(ada, "nina", "operator", "auditor")
    assert "Invited" in text_of(ada, "/people/")
    strange = Client()
    for _ in range(2):  # opening it uses up nothing
        form = strange.get(link)
        assert (form.status_code, form["Referrer-Policy"]) == (200, "strict-origin")
        assert "nina" in form.content.decode()
        assert not code_in(form.content.decode())
    assert set_password(link, PASSWORD, "another")[0] == 422
    assert set_password(link, "short", "short")[0] == 422
    status, page = set_password(link, PASSWORD * 100, PASSWORD * 100)
    assert (status, "must contain at most 1000 characters" in page) == (422, True)
    assert set_password(link)[0] == 200
    assert set_password(link)[0] == 410
    assert strange.get(link).status_code == 410
    entered = strange.post("/accounts/login/", {"login": "nina", "password": PASSWORD})
    assert entered.status_code == 302
    assert roles_of(User.objects.get(username="nina")) == {Role.OPERATOR, Role.AUDITOR}
    assert link.split("/")[2] not in text_of(ada, "/ledger/")


def test_the_form_of_a_link_needs_its_csrf_token() -> None:
    link = invite(add("ada", Role.ADMIN))
    strange = Client(enforce_csrf_checks=True)
    answer = strange.post(link, {"password1": PASSWORD, "password2": PASSWORD})
    assert answer.status_code == 403
    assert not User.objects.get(username="nina").has_usable_password()


@pytest.mark.parametrize("sent", [{"name": "nina", "roles": ["god"]}, {"name": "nina"}, {"roles": ["admin"]}])
def test_what_is_no_role_or_no_name_adds_nobody(sent: dict[str, object]) -> None:
    assert add("ada", Role.ADMIN).post("/people/invite/", sent).status_code == 422
    assert list(User.objects.values_list("username", flat=True)) == ["ada"]


def test_an_admin_changes_the_roles_of_others_and_not_his_own() -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.OPERATOR)
    mine, theirs = (User.objects.get(username=name) for name in ("ada", "bob"))
    page = text_of(ada, f"/people/{theirs.pk}/")
    assert re.search(r'name="roles" value="operator" checked', page)
    sent = {"roles": ["operator", "senior"], "seen": ["operator"]}
    assert ada.post(f"/people/{theirs.pk}/roles/", sent).status_code == 302
    assert roles_of(theirs) == {Role.OPERATOR, Role.SENIOR}
    assert ada.post(f"/people/{theirs.pk}/roles/", sent).status_code == 409
    own_page = text_of(ada, f"/people/{mine.pk}/").split("<main")[1]
    assert "/roles/" not in own_page.split("</main>")[0]
    own = {"roles": ["admin", "operator"], "seen": ["admin"]}
    assert ada.post(f"/people/{mine.pk}/roles/", own).status_code == 403
    for act in ("deactivate", "invite"):
        assert ada.post(f"/people/{mine.pk}/{act}/").status_code == 403
        assert bob.post(f"/people/{mine.pk}/{act}/").status_code == 403
    assert roles_of(mine) == {Role.ADMIN}
    refusals = LedgerEntry.objects.filter(kind="request:refused", stream=f"user:{mine.pk}")
    assert {row.payload["code"] for row in refusals} == {"SEPARATION_OF_DUTY"}


def test_a_person_is_locked_out_and_let_in_again() -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.OPERATOR)
    pk = User.objects.get(username="bob").pk
    assert ada.post(f"/people/{pk}/deactivate/").status_code == 302
    assert bob.get("/").status_code == 302
    page = text_of(ada, f"/people/{pk}/")
    assert "Reactivate" in page
    assert "Change roles" not in page
    assert "Deactivated" in text_of(ada, "/people/")
    assert ada.post(f"/people/{pk}/reactivate/").status_code == 302
    assert User.objects.get(pk=pk).is_active
    assert ada.post("/people/0/deactivate/").status_code == 404
    assert ada.get("/people/0/").status_code == 404


def test_an_admin_ends_all_sessions_of_another() -> None:
    ada, bob = add("ada", Role.ADMIN), add("bob", Role.OPERATOR)
    pk = User.objects.get(username="bob").pk
    assert ada.post(f"/people/{pk}/sessions/end/").status_code == 302
    assert bob.get("/").status_code == 302
    assert ada.get("/").status_code == 200


def test_people_end_their_own_other_sessions_and_see_no_key() -> None:
    here, there = add("bob", Role.OPERATOR), Client()
    there.force_login(User.objects.get(username="bob"))
    page = text_of(here, "/account/")
    assert page.count("This browser") == 1
    for client in (here, there):
        assert client.cookies["sessionid"].value not in page
    assert here.post("/account/sessions/end/").status_code == 302
    assert there.get("/account/").status_code == 302
    assert text_of(here, "/account/").count("Signed in") == 1


def test_everybody_reads_a_person_and_only_admins_get_forms() -> None:
    escalation = factories.desk().escalate()
    olga = factories.user("olga", "operator")
    factories.decide(escalation, olga)
    for role in Role:
        page = text_of(sign_in(role, name=f"reads-{role}"), f"/people/{olga.pk}/")
        assert str(escalation.pk) in page
        assert ("Change roles" in page) == (role is Role.ADMIN)
        assert not code_in(page)


def test_a_hostile_name_stays_text() -> None:
    user = demo_scenes.add_user(demo_scenes.HOSTILE, Role.OPERATOR)
    for path in ("/people/", f"/people/{user.pk}/"):
        page = text_of(sign_in(Role.ADMIN, name=f"reads{len(path)}"), path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert not code_in(page)


def test_more_people_cost_no_more_queries() -> None:
    client, counted = sign_in(Role.ADMIN), []
    for made in range(2):
        add(f"user-{made}", Role.OPERATOR)
        with CaptureQueriesContext(connection) as captured:
            client.get("/people/")
        counted.append(len(captured))
    assert counted[0] == counted[1]
