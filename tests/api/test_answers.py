"""`POST /flows/{dfid}/answers`: the form of an answer, and who may give it."""

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation, Question
from escalations.services import deciding
from runtime.registry.models import Agent
from tests.support import api_client, factories

OVER = {"symbol": "AAPL", "action": "BUY", "quantity": 10, "notional_cents": 189_500}


def escalate(caller: api_client.Caller) -> str:
    """A flow that waits for a person; its DFID."""
    dfid = caller.open_flow()
    verdict = caller.propose(dfid, api_client.proposal(caller.context(dfid), params=OVER)).ok()
    assert verdict["verdict"] == "ESCALATE"
    return dfid


def ask(dfid: str, *, text: str = "Why ten?") -> None:
    """A person asks."""
    olivia = User.objects.filter(username="olivia").first() or factories.user("olivia")
    escalation = Escalation.objects.get(flow=UUID(dfid))
    answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=text)
    assert isinstance(answer, deciding.DecisionResult), answer


def test_a_question_is_heard_and_answered(trader: api_client.Caller) -> None:
    dfid = escalate(trader)
    trader.post(f"/flows/{dfid}/answers", {"text": "Because."}).problem(409, "NOTHING_ASKED")
    ask(dfid)
    told = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert told["event_type"] == "INFORMATION_REQUESTED"
    assert told["data"]["question"] == "Why ten?"
    body = {"text": "Because.", "payload_ref": "s3://notes/1"}
    said = trader.post(f"/flows/{dfid}/answers", body).ok()
    assert (said["escalation_id"], said["number"]) == (told["data"]["escalation_id"], 1)
    assert trader.post(f"/flows/{dfid}/answers", body).ok() == said
    trader.post(f"/flows/{dfid}/answers", {"text": "No."}).problem(409, "ALREADY_ANSWERED")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": " \n\t"},
        {"text": "x" * 4001},
        {"text": 7},
        {"text": "x", "payload_ref": "two words"},
        {"text": "x", "payload_ref": "x" * 501},
        {"text": "x", "number": 0},
        {"text": "x", "number": 1.5},
        {"text": "x", "verdict": "ACCEPT"},
        [],
    ],
)
def test_refuses_an_answer_of_another_form(trader: api_client.Caller, body: Any) -> None:
    dfid = escalate(trader)
    ask(dfid)
    trader.post(f"/flows/{dfid}/answers", body).problem(422, "INVALID_REQUEST")
    assert Question.objects.get().closed_why == ""


@pytest.mark.parametrize(
    "raw",
    [
        b'{"text": "a\\u0000b"}',
        b'{"text": "\\ud800"}',
        b'{"text": "a", "text": "b"}',
        b'\xef\xbb\xbf{"text": "a"}',
        b'{"text": "\xff"}',
    ],
)
def test_refuses_what_is_not_i_json(trader: api_client.Caller, raw: bytes) -> None:
    dfid = escalate(trader)
    ask(dfid)
    assert trader.call("POST", f"/flows/{dfid}/answers", raw=raw).status == 400
    assert Question.objects.get().closed_why == ""


def test_line_ends_and_invisible_letters_are_kept_as_they_were_sent(trader: api_client.Caller) -> None:
    dfid = escalate(trader)
    ask(dfid)
    text = "one\r\ntwo \x1b[31m \u202e abc"
    trader.post(f"/flows/{dfid}/answers", {"text": text}).ok()
    assert Question.objects.get().answer == text


def test_only_the_flows_own_agent_answers(trader: api_client.Caller, stranger: api_client.Caller) -> None:
    dfid = escalate(trader)
    ask(dfid)
    stranger.post(f"/flows/{dfid}/answers", {"text": "I know."}).problem(404, "FLOW_NOT_FOUND")
    api_client.Caller().post(f"/flows/{dfid}/answers", {"text": "I know."}).problem(401, "UNAUTHENTICATED")
    other = "019aa000-0000-7000-8000-000000000000"
    trader.post(f"/flows/{other}/answers", {"text": "I know."}).problem(404, "FLOW_NOT_FOUND")


def test_a_passive_agent_answers_and_a_suspended_one_does_not(trader: api_client.Caller) -> None:
    dfid = escalate(trader)
    ask(dfid)
    Agent.objects.update(status="SUSPENDED")
    trader.post(f"/flows/{dfid}/answers", {"text": "Because."}).problem(403, "AGENT_SUSPENDED")
    Agent.objects.update(status="PASSIVE")
    trader.post(f"/flows/{dfid}/answers", {"text": "Because."}).ok()
