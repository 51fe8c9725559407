"""The switches: who may press which, what the page says then, and where a form may lead back to."""

import re
from uuid import UUID

import pytest

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.execution.services import calling, claiming
from runtime.registry.models import Agent, Stop
from tests.support import demo_scenes, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _agents() -> None:
    demo_scenes.load_pack()


def test_everyone_who_operates_may_stop_and_an_auditor_may_not() -> None:
    for role in (Role.OPERATOR, Role.SENIOR, Role.ADMIN):
        client = sign_in(role, name=role.value)
        assert client.post("/stop/", {"reason": "drill"}).status_code == 302
    assert Stop.objects.filter(lifted_at__isnull=True).count() == 1
    auditor = sign_in(Role.AUDITOR, name="reader")
    for path in ("/stop/", "/resume/", "/agents/momentum-trader/stop/", "/agents/momentum-trader/resume/"):
        assert auditor.post(path, {"reason": "drill"}).status_code == 403


def test_whoever_resumes_is_told_what_waits_of_whom() -> None:
    desk, other = factories.desk(), factories.desk(agent_id="other")
    for one in (desk, desk, other):
        one.propose(one.open())
    factories.desk(agent_id="idle")
    admin = sign_in(Role.ADMIN)
    admin.post("/stop/", {"reason": "drill"})
    page = text_of(admin, "/stop/state/")
    assert "Waiting intents: 3." in page
    assert re.findall(r"<bdi>([^<]+)</bdi>", page) == ["other", desk.agent.agent_id]
    answer = admin.post("/resume/", {"reason": "drill over"}, follow=True)
    assert "Intents that waited: 3." in answer.content.decode()


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_resumption_of_everything_needs_a_reason(reason: str) -> None:
    admin = sign_in(Role.ADMIN)
    admin.post("/stop/", {"reason": "drill"})
    assert admin.post("/resume/", {"reason": reason}).status_code == 400
    assert Stop.objects.filter(lifted_at__isnull=True).exists()
    assert not LedgerEntry.objects.filter(kind="system:resumed").exists()


@pytest.mark.parametrize("address", ["/stop/", "/agents/{agent}/stop/"])
def test_a_stop_names_the_calls_that_had_begun(address: str) -> None:
    desk = factories.desk()
    intent_id = UUID(desk.propose(desk.open())["intent_id"])
    claimed = claiming.claim(intent_id, owner="a worker")
    assert isinstance(claimed, claiming.Claimed)
    with calling.gate(claimed):
        pass
    admin = sign_in(Role.ADMIN)
    answer = admin.post(address.format(agent=desk.agent.agent_id), {"reason": "drill"}, follow=True)
    assert str(intent_id) in answer.content.decode()


def test_only_seniors_and_admins_resume() -> None:
    operator, senior = sign_in(Role.OPERATOR, name="op"), sign_in(Role.SENIOR, name="sen")
    operator.post("/stop/", {"reason": "Prices look wrong"})
    assert operator.post("/resume/").status_code == 403
    assert "Everything is stopped" in text_of(operator, "/")
    swapped = {"HX-Request": "true", "HX-Current-URL": "http://testserver/flows/?state=CLOSED"}
    assert "Prices look wrong" in text_of(operator, "/stop/state/", **swapped)
    assert 'name="next" value="/flows/"' in text_of(senior, "/stop/state/", **swapped)
    assert "Prices look wrong" in text_of(operator, "/")
    assert 'id="resume-all"' not in text_of(operator, "/")
    assert 'id="resume-all"' in text_of(senior, "/")
    assert senior.post("/resume/", {"reason": "Prices are right again"}).status_code == 302
    assert LedgerEntry.objects.get(kind="system:resumed").payload["reason"] == "Prices are right again"
    assert text_of(senior, "/stop/state/").strip() == ""
    assert not Stop.objects.filter(lifted_at__isnull=True).exists()


def test_one_agent_is_stopped_and_resumed_from_its_page() -> None:
    admin = sign_in(Role.ADMIN)
    path = "/agents/momentum-trader/"
    assert "Stop this agent" in text_of(admin, path)
    assert admin.post(f"{path}stop/", {"reason": "Odd orders", "next": path})["Location"] == path
    assert Agent.objects.get(agent_id="momentum-trader").stopped_at is not None
    page = text_of(admin, path)
    assert "Odd orders" in page
    assert "Resume this agent" in page
    assert admin.post(f"{path}resume/", {"next": path}).status_code == 400
    assert "Resume this agent" in text_of(admin, path)
    assert admin.post(f"{path}resume/", {"reason": "They are right", "next": path}).status_code == 302
    assert "Stop this agent" in text_of(admin, path)
    assert admin.post("/agents/nobody/stop/", {"reason": "x"}).status_code == 404


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_stop_needs_a_reason(reason: str) -> None:
    answer = sign_in(Role.OPERATOR).post("/stop/", {"reason": reason})
    assert answer.status_code == 400
    assert b"Nothing was changed" in answer.content
    assert not Stop.objects.exists()


@pytest.mark.parametrize(
    "target", ["https://example.org/", "//example.org/x", "/\\example.org", "javascript:x", ""]
)
def test_a_form_never_leads_to_another_site(target: str) -> None:
    answer = sign_in(Role.OPERATOR).post("/stop/", {"reason": "drill", "next": target})
    assert answer["Location"] == "/"


def test_a_get_changes_nothing() -> None:
    client = sign_in(Role.ADMIN)
    for path in ("/stop/", "/resume/", "/agents/momentum-trader/stop/"):
        assert client.get(path).status_code == 405
    assert not Stop.objects.exists()
