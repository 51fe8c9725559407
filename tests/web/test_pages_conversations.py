"""The pages on conversations and capabilities: what agents say is shown escaped, as their claim."""

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.conversations.models import Capability, Conversation, Message
from runtime.kernel import conversation as rules
from tests.api.test_capabilities import offer
from tests.support import api_client, talking, worlds
from tests.web.test_pages import sign_in, text_of

_loaded = worlds.shared(api_client.load_pack)
ATTACK = "<script>alert(1)</script>"


@pytest.fixture
def agents(_loaded: None, db: None) -> tuple[api_client.Caller, api_client.Caller]:
    return api_client.session(), api_client.session(api_client.OTHER)


def test_a_conversation_is_a_thread_of_claims(agents: tuple[api_client.Caller, api_client.Caller]) -> None:
    trader, other = agents
    asked = talking.message({"question": ATTACK})
    trader.post("/messages", asked).ok(201)
    other.post("/messages", talking.answer_to(asked)).ok(201)
    client = sign_in(Role.AUDITOR)
    assert "talk-1" in text_of(client, "/conversations/")
    page = text_of(client, f"/conversations/{Conversation.objects.get().pk}/")
    assert page.index("&lt;script&gt;") < page.index("ConsultationResponse")
    assert ATTACK not in page
    assert "Unverified claim by" in page
    assert asked["headers"]["message_id"] in page


def test_the_page_says_why_a_conversation_was_stopped(
    agents: tuple[api_client.Caller, api_client.Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MOST_MESSAGES", 1)
    agents[0].post("/messages", talking.message()).ok(201)
    agents[0].post("/messages", talking.message()).problem(429, "BUDGET_EXCEEDED")
    client = sign_in(Role.OPERATOR)
    page = text_of(client, f"/conversations/{Conversation.objects.get().pk}/")
    assert "the most that a conversation may have" in page
    listed = text_of(client, "/conversations/?state=stopped")
    assert "Stopped" in listed
    assert "Its conversation was stopped." in listed


def test_what_cannot_be_shown_is_said(agents: tuple[api_client.Caller, api_client.Caller]) -> None:
    agents[0].post("/messages", talking.message({"question": "hidden words"})).ok(201)
    Message.objects.update(commitment="f" * 64)
    client = sign_in(Role.AUDITOR)
    page = text_of(client, f"/conversations/{Conversation.objects.get().pk}/")
    assert "hidden words" not in page
    assert "It does not match the ledger." in page
    assert client.get("/conversations/019aa000-0000-7000-8000-000000000000/").status_code == 404


def decide(client: Client, **fields: str) -> int:
    address = f"/capabilities/{Capability.objects.get().pk}/override/"
    sent = {"decision": "DELISTED", "seen": "", "reason": "It lied."} | fields
    return client.post(address, sent).status_code


def test_an_admin_decides_with_a_reason(agents: tuple[api_client.Caller, api_client.Caller]) -> None:
    offer(agents[1], tags=[ATTACK])
    client = sign_in(Role.ADMIN)
    page = text_of(client, "/capabilities/")
    assert ATTACK not in page
    assert "named to agents" in page
    assert decide(client, reason="") == 400
    assert decide(client, decision="MAYBE") == 400
    assert decide(client) == 302
    assert decide(client) == 409
    page = text_of(client, "/capabilities/")
    assert "It lied." in page
    assert "not named to agents" in page


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_nobody_else_decides(agents: tuple[api_client.Caller, api_client.Caller], role: Role) -> None:
    offer(agents[1])
    client = sign_in(role)
    assert "Record the decision" not in text_of(client, "/capabilities/")
    assert decide(client) == 403
    assert Capability.objects.get().override == ""


def test_a_row_that_was_rewritten_closes_no_list(agents: tuple[api_client.Caller, api_client.Caller]) -> None:
    offer(agents[1])
    Capability.objects.update(body=b"\xff{")
    assert "It cannot be read" in text_of(sign_in(Role.AUDITOR), "/capabilities/")
