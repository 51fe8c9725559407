"""The registry in the browser: agents registered, described, moved; keys shown once; only an admin writes."""

import re
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.states import AgentStatus
from runtime.contracts.token_issuer import TrustedIssuer
from runtime.core import clock
from runtime.registry.models import Agent, Key
from runtime.registry.services import agents, credentials
from tests.support import demo_scenes
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/agents/momentum-trader/"
NEW = {"agent_id": "scout", "role": "MONITOR", "owner": "operator", "mission": "Watch.", "review_on": ""}


@pytest.fixture(autouse=True)
def _agents() -> None:
    demo_scenes.load_pack()


@pytest.fixture
def admin() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def agent(agent_id: str = "momentum-trader") -> Agent:
    return Agent.objects.get(agent_id=agent_id)


def test_an_admin_registers_an_agent(admin: Client) -> None:
    assert "/register-agent/" in text_of(admin, "/agents/")
    assert 'name="agent_id"' in text_of(admin, "/register-agent/")
    answer = admin.post("/register-agent/", {**NEW, "review_on": "2027-01-31"})
    assert answer["Location"] == "/agents/scout/"
    page = text_of(admin, "/agents/scout/")
    assert "Draft its first manifest" in page
    assert "review due 2027-01-31" in page
    assert not code_in(page)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("agent_id", "two words", "An id is up to 64"),
        ("owner", "nobody", "No active user and no group has this name"),
        ("mission", "", "Describe in at most 2000"),
        ("role", "KING", "Choose one of the listed roles"),
        ("review_on", "soon", "Enter the date as YYYY-MM-DD"),
    ],
)
def test_a_form_says_beside_the_field_what_is_wrong_and_keeps_what_was_typed(
    admin: Client, field: str, value: str, words: str
) -> None:
    answer = admin.post("/register-agent/", {**NEW, field: value})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert words in page
    assert f'id="{field}-wrong"' in page
    assert "Watch." in page or field == "mission"
    assert not Agent.objects.filter(agent_id="scout").exists()


def test_a_taken_id_is_said_above_the_form(admin: Client) -> None:
    answer = admin.post("/register-agent/", {**NEW, "agent_id": "momentum-trader"})
    assert answer.status_code == 409
    assert "already has the id momentum-trader" in answer.content.decode()


def test_an_admin_describes_an_agent_anew(admin: Client) -> None:
    assert agent().mission in text_of(admin, f"{PAGE}edit/")
    seen = {"seen_owner": agent().owner, "seen_mission": agent().mission, "seen_review_on": ""}
    wanted = {"owner": "operator", "mission": "Trade.\r\nLess.", "review_on": "2027-02-03"}
    assert admin.post(f"{PAGE}edit/", {**seen, **wanted})["Location"] == PAGE
    assert (agent().owner, agent().mission) == ("operator", "Trade.\nLess.")
    assert LedgerEntry.objects.get(kind="agent:edited").payload["owner_after"] == "operator"
    assert "Agent profile updated" in text_of(admin, "/ledger/")
    late = admin.post(f"{PAGE}edit/", {**seen, **wanted, "mission": "Something else."})
    assert late.status_code == 409
    assert "Someone else changed this agent" in late.content.decode()
    assert admin.post(f"{PAGE}edit/", {**seen, **wanted, "review_on": "x"}).status_code == 422
    assert admin.get("/agents/nobody/edit/").status_code == 404


def test_an_overdue_review_is_shown(admin: Client) -> None:
    today = clock.now().date()
    Agent.objects.filter(agent_id="momentum-trader").update(review_on=today - timedelta(days=1))
    Agent.objects.filter(agent_id="unsure-analyst").update(review_on=today)
    assert text_of(admin, "/agents/").count("Overdue") == 1
    assert "Overdue" in text_of(admin, PAGE)
    assert "Overdue" not in text_of(admin, "/agents/unsure-analyst/")
    agents.set_status(
        tenant="default", agent_id="momentum-trader", status=AgentStatus.RETIRED, reason="x", actor="user:1"
    )
    assert "Overdue" not in text_of(admin, "/agents/")


def offered(page: str) -> list[str]:
    select = re.search(r'<select id="move-status".*?</select>', page)
    return re.findall(r'value="(\w+)"', select[0]) if select else []


@pytest.mark.parametrize("status", list(AgentStatus))
def test_only_allowed_moves_are_offered(admin: Client, status: AgentStatus) -> None:
    Agent.objects.filter(agent_id="momentum-trader").update(status=status)
    expected = [move for move in agents.MOVES[status] if move is not AgentStatus.RETIRED]
    assert offered(text_of(admin, PAGE)) == expected


def move(client: Client, **fields: str) -> int:
    given = {"seen": "ACTIVE", "status": "SUSPENDED", "reason": "because", **fields}
    return int(client.post(f"{PAGE}status/", given).status_code)


def test_an_admin_moves_a_status_with_a_reason(admin: Client) -> None:
    assert move(admin) == 302
    assert agent().status == "SUSPENDED"
    assert LedgerEntry.objects.get(kind="agent:status_changed").payload["reason"] == "because"
    assert move(admin, status="LOCKED") == 409
    assert move(admin, seen="SUSPENDED", status="PASSIVE") == 302
    assert move(admin, seen="PASSIVE", status="ACTIVE", reason=" ") == 422
    assert move(admin, seen="PASSIVE", status="ACTIVE", reason="a\x00b") == 400
    assert move(admin, seen="PASSIVE", status="KING") == 422
    assert move(admin, seen="PASSIVE", status="ACTIVE", reason="Desk agreed") == 302
    assert agent().status == "ACTIVE"


def test_retiring_asks_for_the_id_and_is_for_good(admin: Client) -> None:
    assert move(admin, status="RETIRED") == 422
    assert move(admin, status="RETIRED", typed_id="momentum") == 422
    assert agent().status == "ACTIVE"
    assert move(admin, status="RETIRED", typed_id="momentum-trader") == 302
    page = text_of(admin, PAGE)
    assert "Change the status" not in page
    assert "Issue a key" not in page
    assert "Draft a new version" not in page
    assert move(admin, seen="RETIRED", status="ACTIVE") == 409
    assert admin.post(f"{PAGE}keys/").status_code == 409
    assert admin.get(f"{PAGE}manifests/new/").status_code == 404


def test_a_key_is_shown_once_and_works(admin: Client) -> None:
    answer = admin.post(f"{PAGE}keys/")
    page = answer.content.decode()
    (text,) = set(re.findall(r"agk_[0-9a-f]{16}\.[A-Za-z0-9_-]{43}", page))
    secret = text.partition(".")[2]
    assert answer["Cache-Control"] == "no-store"
    assert credentials.agent_key(text) is not None
    assert secret not in text_of(admin, PAGE)
    assert all(secret not in str(browser.get_decoded()) for browser in BrowserSession.objects.all())
    assert all(secret.encode() not in bytes(entry.body) for entry in LedgerEntry.objects.all())
    key = Key.objects.get(agent=agent())
    assert admin.post(f"/agents/unsure-analyst/keys/{key.key_id}/revoke/").status_code == 404
    assert admin.post(f"{PAGE}keys/{key.key_id}/revoke/").status_code == 302
    assert credentials.agent_key(text) is None
    assert "0 active" in text_of(admin, PAGE)


def test_an_admin_binds_a_subject_of_a_trusted_issuer(admin: Client, settings: Settings) -> None:
    assert "Bind a token" not in text_of(admin, PAGE), "no issuer is trusted"
    name = "https://login.example"
    settings.DIR_TOKEN_ISSUERS = {
        name: TrustedIssuer(issuer=name, audience="dir-console", keys_at="/keys.json", max_age_s=60)
    }
    form = {"issuer": name, "subject": "workload:<b>", "environment": "prod"}
    assert admin.post(f"{PAGE}tokens/", {**form, "issuer": "https://other.example"}).status_code == 422
    assert admin.post(f"{PAGE}tokens/", {**form, "subject": " "}).status_code == 422
    assert not Key.objects.exists()
    assert admin.post(f"{PAGE}tokens/", form).status_code == 302
    page = text_of(admin, PAGE)
    assert "workload:&lt;b&gt;" in page
    assert "for <b>prod</b>" in page
    key = Key.objects.get(agent=agent())
    entry = LedgerEntry.objects.get(kind="key:issued")
    assert (entry.payload["token_issuer"], entry.payload["token_subject"]) == (name, "workload:<b>")
    assert admin.post("/agents/unsure-analyst/tokens/", form).status_code == 422
    assert admin.post(f"{PAGE}keys/{key.key_id}/revoke/").status_code == 302
    assert "0 active" in text_of(admin, PAGE)
    operator = sign_in(Role.OPERATOR, name="operator-too")
    assert operator.post(f"{PAGE}tokens/", form).status_code == 403


def test_nobody_but_an_admin_is_offered_a_form() -> None:
    for role in (Role.OPERATOR, Role.SENIOR, Role.AUDITOR):
        client = sign_in(role, name=role.value)
        page = text_of(client, PAGE)
        for words in ("Issue a key", "Change the status", "Draft a new version", f"{PAGE}edit/"):
            assert words not in page
        assert "/register-agent/" not in text_of(client, "/agents/")
        for path in ("/register-agent/", f"{PAGE}edit/", f"{PAGE}manifests/new/"):
            assert client.get(path).status_code == 403
            assert client.post(path).status_code == 403
        for path in (f"{PAGE}status/", f"{PAGE}keys/", f"{PAGE}keys/x/revoke/"):
            assert client.post(path).status_code == 403
