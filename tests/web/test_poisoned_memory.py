"""The bad day of a poisoned memory, over HTTP alone: from a web page to the review of what it touched."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.guards.models import Review
from tests.support import api_client, factories, poisoned_memory, worlds
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PATH = "/memory/tips/acme"
BUY = {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": 18950}

world = worlds.shared(api_client.load_pack)


def grant(agent_id: str, access: str) -> None:
    factories.change_manifest(agent_id, memory_scopes=[{"scope": "tips", "access": access}])


def remembered(agent: api_client.Caller) -> tuple[str, list[dict[str, Any]]]:
    """A new flow of an agent, and what its context holds of memory."""
    dfid: str = agent.open_flow()
    return dfid, agent.post(f"/flows/{dfid}/context").ok(201)["context"]["memory"]


def form_of(client: Client, path: str, action: str) -> dict[str, str]:
    """The hidden fields of a page's form, as a browser sends them."""
    page = client.get(path).content.decode()
    form = re.search(rf'<form method="post" action="{action}".*?</form>', page, re.DOTALL)
    assert form is not None, action
    return dict(re.findall(r'name="(digest|before)" value="([^"]*)"', form[0]))


def test_a_poisoned_memory_is_held_released_by_mistake_and_followed_to_its_flows(world: None) -> None:
    grant(api_client.TRADER, "READ_WRITE")
    grant(api_client.OTHER, "READ")
    trader, other = api_client.session(), api_client.session(api_client.OTHER)

    # An agent reads a web page, and writes down what stands there.
    answer = trader.put(PATH, {"value": poisoned_memory.POISON, "source": poisoned_memory.SOURCE}).ok()
    assert answer["quarantined"] is True
    assert answer["reasons"] == ["OUTSIDE_SOURCE", "INSTRUCTIONS"]

    # Nobody receives it.
    for agent in (trader, other):
        agent.get(PATH).problem(404, "NOT_FOUND")
        assert remembered(agent)[1] == []

    # An admin sees why it waits, and releases it all the same.
    ada = sign_in(Role.ADMIN, name="ada")
    page = text_of(ada, "/memory/")
    for words in ("tells it to ignore rules", "tells it to hide something from people", "orders it to act"):
        assert words in page
    (item,) = set(re.findall(r'href="(/memory/\d+/)"', page))
    release = f"{item}release/"
    shown = form_of(ada, item, f"{item}discard/")
    assert ada.post(release, shown | {"reason": poisoned_memory.WRONGLY}).status_code == 302

    # It is served to a flow of each agent, and one of them acts on it.
    flows = {}
    for agent in (trader, other):
        dfid, memory = remembered(agent)
        assert [one["value"] for one in memory] == [poisoned_memory.POISON]
        flows[dfid] = agent
    touched, idle = flows
    assert flows[touched].get(f"{PATH}?dfid={touched}").ok()["source"] == poisoned_memory.SOURCE
    seen = trader.post(f"/flows/{touched}/context").ok(201)["context_ref"]
    body = factories.envelope_body(context_ref=seen, params=BUY)
    verdict = trader.propose(touched, body).ok()["verdict"]

    # The page of the item shows both flows, and what became of them.
    page = text_of(ada, item)
    for dfid in flows:
        assert dfid in page
    assert {"ACCEPT": "Accepted", "ESCALATE": "Escalated"}[verdict] in page
    assert "1 read" in page
    assert page.count("not marked") == 2

    # One action marks both.
    fields = form_of(ada, item, f"{item}mark/")
    assert ada.post(f"{item}mark/", fields | {"reason": poisoned_memory.MARKED}).status_code == 302
    assert "not marked" not in text_of(ada, item)
    for dfid in flows:
        assert "Needs review" in text_of(ada, f"/flows/{dfid}/")
        (entry,) = LedgerEntry.objects.filter(stream=dfid, kind="review:requested")
        assert entry.actor == f"user:{User.objects.get(username='ada').pk}"
        assert entry.payload["reason"] == poisoned_memory.MARKED
    olivia = sign_in(Role.OPERATOR, name="olivia")
    for dfid, result in ((touched, "CONFIRMED"), (idle, "FALSE_ALARM")):
        review = Review.objects.get(flow_id=dfid)
        said = {"result": result, "note": "Seen in its context."}
        assert olivia.post(f"/reviews/{review.pk}/close/", said).status_code == 302
    assert isinstance(verify_database(), Whole)
