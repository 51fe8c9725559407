"""What an agent says is kept, shown as its claim, and never taken for more."""

import re
from uuid import UUID

import pytest
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contexts.services import steps
from runtime.contracts import api_schemas
from runtime.contracts.states import StepType
from runtime.maintenance.services import payloads
from tests.support import api_client, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
SAID = "The trend <b>holds</b>.\nI would buy \u202enow."
EXPECTED = {"position.AAPL": 5, "market.state": "OPEN\u200b"}


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.OPERATOR, name="olivia")


def report(desk: factories.Desk, dfid: UUID, summary: str | None) -> None:
    asked = api_schemas.StepRequest(step_type=StepType.REASONING, digest="a" * 64, summary=summary)
    assert isinstance(steps.report(agent=desk.agent, dfid=dfid, asked=asked), api_schemas.StepAnswer)


def claims(page: str) -> list[str]:
    return re.findall(r"<blockquote[^>]*>(.*?)</blockquote>", page, re.DOTALL)


def test_the_summary_of_a_step_stands_on_the_timeline_as_a_claim(reader: Client) -> None:
    desk = factories.desk()
    flow = desk.open()
    report(desk, flow.dfid, SAID)
    report(desk, flow.dfid, None)
    for page in (text_of(reader, f"/flows/{flow.dfid}/"), text_of(reader, f"/flows/{flow.dfid}/entries/")):
        (said,) = claims(page)
        assert "The trend &lt;b&gt;holds&lt;/b&gt;." in said
        assert "\u202e" not in said
        assert page.count("Unverified claim by the agent") == 1


def test_an_erased_summary_is_shown_no_more(reader: Client) -> None:
    desk = factories.desk()
    flow = desk.open()
    report(desk, flow.dfid, SAID)
    commitment = LedgerEntry.objects.get(kind="step:reported").payload["summary_commitment"]
    assert payloads.erase(tenant=factories.TENANT, commitment=commitment, reason="asked", actor="system")
    page = text_of(reader, f"/flows/{flow.dfid}/")
    assert claims(page) == []
    assert "The agent reported a step: reasoning" in page


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        (EXPECTED, ["position.AAPL", "5", "market.state", "OPEN"]),
        ([{"fact": "price.AAPL", "value": 1}], ["price.AAPL", "1"]),
        ([{"fact": "price.AAPL"}, 7], ["1", "price.AAPL", "2", "7"]),
    ],
)
def test_the_effects_that_an_agent_expects_are_its_claim(
    expected: object, shown: list[str], reader: Client
) -> None:
    desk = factories.desk()
    flow = desk.open()
    said = desk.propose(flow, params=factories.OVER_LIMIT, expected_effects=expected)
    for path in (f"/escalations/{said['escalation_id']}/", f"/flows/{flow.dfid}/"):
        page = text_of(reader, path)
        part = page.split("Effects the agent expects", 1)[1].split("</dl>", 1)[0]
        assert "unverified, not compared with the result" in part
        for words in shown:
            assert words in part, (path, words)


def test_without_expected_effects_nothing_is_said(reader: Client) -> None:
    desk = factories.desk()
    said = desk.propose(desk.open(), params=factories.OVER_LIMIT)
    assert "Effects the agent expects" not in text_of(reader, f"/escalations/{said['escalation_id']}/")


def test_what_an_agent_says_of_itself_is_in_the_entry_and_on_its_page(reader: Client) -> None:
    api_client.load_pack()
    key = api_client.agent_key()
    hello = api_client.hello(instance_id="pod-7", environment="staging")
    api_client.Caller(key).post("/handshake", hello).ok()
    payload = LedgerEntry.objects.get(kind="session:opened").payload
    assert (payload["instance_id"], payload["environment"]) == ("pod-7", "staging")
    page = text_of(reader, "/agents/trader/")
    assert 'instance <bdi class="mono">pod-7</bdi>' in page
    assert 'in environment <bdi class="mono">staging</bdi>' in page
    assert "self-reported: instance pod-7, environment staging" in text_of(reader, "/ledger/")
    api_client.Caller(key).post("/handshake", api_client.hello()).ok()
    assert "pod-7" not in text_of(reader, "/agents/trader/")
