"""Messages between agents: who may send what to whom, and what becomes of them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from audit import ledger
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from runtime.contracts.states import AgentStatus
from runtime.conversations.models import Conversation, Message
from runtime.conversations.services import posting
from runtime.core import clock
from runtime.kernel import conversation as rules
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.stops.services import stops
from tests.support import talking
from tests.support.api_client import OTHER, TRADER, Caller, auditor_key
from tests.support.talking import answer_to, message


def post(caller: Caller, sent: dict[str, Any]) -> Any:
    return caller.post("/messages", sent).ok(201)


def inbox(caller: Caller, after: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(f"/messages?after={after}").ok()["messages"]
    return found


def ack(caller: Caller, sent: dict[str, Any]) -> Any:
    return caller.post(f"/messages/{sent['headers']['message_id']}/ack").ok()


def kinds() -> list[str]:
    stream = LedgerEntry.objects.filter(stream__startswith="conversation:").order_by("stream", "seq")
    return list(stream.values_list("kind", flat=True))


def test_a_message_is_delivered_until_it_is_acknowledged(trader: Caller, stranger: Caller) -> None:
    sent = message(privacy={"classification": "internal"}, added_later="kept")
    answer = post(trader, sent)
    assert (answer["conversation_id"], answer["protocol_version"]) == ("talk-1", "1.2.0")
    (got,) = inbox(stranger)
    assert {"headers": got["headers"], "payload": got["payload"]} == sent
    assert inbox(stranger) == [got]
    assert inbox(stranger, after=got["number"]) == []
    assert inbox(trader) == []
    assert ack(stranger, sent)["taken_here"]
    assert ack(stranger, sent)["taken_here"]  # its first answer may have been lost
    assert inbox(stranger) == []
    assert kinds() == ["conversation:opened", "message:sent", "message:taken"]
    assert findings.verify_all().findings == []


def test_the_same_message_is_stored_once(trader: Caller, stranger: Caller) -> None:
    sent = message()
    assert post(trader, sent) == post(trader, sent)
    trader.post("/messages", {**sent, "payload": {"question": "Other?"}}).problem(409, "MESSAGE_ID_REUSED")
    stolen = {**answer_to(sent)["headers"], "message_id": sent["headers"]["message_id"]}
    stranger.post("/messages", message({"answer": 1}, **stolen)).problem(409, "MESSAGE_ID_REUSED")
    assert Message.objects.count() == 1


def test_the_session_proves_the_sender(trader: Caller, stranger: Caller) -> None:
    stranger.post("/messages", message()).problem(403, "UNAUTHORIZED")
    assert Caller().post("/messages", message()).status == 401
    sent = message()
    post(trader, sent)
    trader.post(f"/messages/{sent['headers']['message_id']}/ack").problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"message_id": "nope"}, "/headers/message_id"),
        ({"message_type": "Gossip"}, "/headers/message_type"),
        ({"ttl": 0}, "/headers/ttl"),
        ({"ttl": 604_801}, "/headers/ttl"),
        ({"to_agent_id": TRADER}, "/headers/to_agent_id"),
        ({"to_agent_id": None}, "/headers/to_agent_id"),
        ({"auth": {"scheme": "Bearer", "credentials": "secret"}}, "/headers/auth/credentials"),
        ({"protocol_version": {"min_supported": "1.2", "max_supported": "1.0"}}, "/headers/protocol_version"),
        ({"message_type": "ConsultationResponse"}, "/headers/correlation_id"),
        ({"message_type": "CapabilityResolution"}, "/headers/message_type"),
    ],
)
def test_a_message_that_does_not_fit_is_refused(trader: Caller, changes: Any, pointer: str) -> None:
    told = trader.post("/messages", message(**changes)).problem(422, "INVALID_SCHEMA")
    assert pointer in [violation["pointer"] for violation in told["violations"]]
    assert not Message.objects.exists()


def test_a_payload_has_the_form_of_its_type(trader: Caller) -> None:
    told = trader.post("/messages", message({"query": "?"})).problem(422, "INVALID_SCHEMA")
    assert [violation["pointer"] for violation in told["violations"]] == ["/payload/question"]
    trader.post("/messages", message({"question": "?" * 8000, "more": "x" * 60_000})).problem(
        413, "BODY_TOO_LARGE"
    )


def test_a_message_may_be_about_a_flow_of_its_sender(trader: Caller, stranger: Caller) -> None:
    dfid = trader.post("/flows", {"trigger": {"why": "trial"}}).ok(201)["dfid"]
    post(trader, message(dfid=dfid))
    assert str(Message.objects.get().flow_id) == dfid
    other = stranger.post("/flows", {"trigger": {"why": "trial"}}).ok(201)["dfid"]
    for wrong in (other, "00000000-0000-7000-8000-000000000000"):
        trader.post("/messages", message(dfid=wrong)).problem(404, "FLOW_NOT_FOUND")
    trader.post("/messages", message(dfid="x")).problem(422, "INVALID_SCHEMA")
    assert Message.objects.count() == 1
    assert findings.verify_all().findings == []


def test_the_manifest_says_to_whom(trader: Caller) -> None:
    talking.allow(messages_to=["somebody-else"])
    trader.post("/messages", message()).problem(403, "UNAUTHORIZED")
    talking.allow(messages_to=[OTHER])
    post(trader, message())
    trader.post("/messages", message(to_agent_id="nobody-here")).problem(403, "UNAUTHORIZED")


def test_an_unknown_recipient_is_said_so(trader: Caller) -> None:
    trader.post("/messages", message(to_agent_id="nobody-here")).problem(404, "CAPABILITY_NOT_FOUND")


def test_a_key_in_the_manifest_is_asked_for(trader: Caller, stranger: Caller) -> None:
    key, other = talking.Key(), talking.Key()
    talking.allow(message_key=key.public)
    trader.post("/messages", message()).problem(403, "UNAUTHORIZED")
    trader.post("/messages", other.sign(message())).problem(403, "UNAUTHORIZED")
    good = key.sign(message())
    changed = {**good, "payload": {"question": "Should we sell?"}}
    trader.post("/messages", changed).problem(403, "UNAUTHORIZED")
    post(trader, good)
    (got,) = inbox(stranger)
    assert got["verified_key_id"]


@pytest.mark.parametrize("status", [AgentStatus.PASSIVE, AgentStatus.LOCKED, AgentStatus.SUSPENDED])
def test_an_agent_that_is_held_neither_sends_nor_receives(
    trader: Caller, stranger: Caller, status: AgentStatus
) -> None:
    sent = message()
    post(trader, sent)
    Agent.objects.filter(agent_id=OTHER).update(status=status)
    code = f"AGENT_{status}"
    stranger.post("/messages", answer_to(sent)).problem(403, code)
    stranger.get("/messages").problem(403, code)
    stranger.post(f"/messages/{sent['headers']['message_id']}/ack").problem(403, code)
    trader.post("/messages", message()).problem(503, "TEMPORARILY_UNAVAILABLE")


def test_stops_hold_messages_back(trader: Caller, stranger: Caller) -> None:
    post(trader, message())
    stops.stop_agent(tenant="default", agent_id=OTHER, actor="user:1", reason="look")
    stranger.get("/messages").problem(503, "TEMPORARILY_UNAVAILABLE")
    trader.post("/messages", message()).problem(503, "TEMPORARILY_UNAVAILABLE")
    stops.resume_agent(tenant="default", agent_id=OTHER, actor="user:1")
    assert len(inbox(stranger)) == 1
    stops.stop_all(tenant="default", actor="user:1", reason="look")
    stranger.get("/messages").problem(503, "TEMPORARILY_UNAVAILABLE")
    trader.post("/messages", message()).problem(503, "TEMPORARILY_UNAVAILABLE")


def test_a_message_whose_time_is_over_is_a_dead_letter(
    trader: Caller, stranger: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = message(ttl=5), message(ttl=5)
    post(trader, first)
    post(trader, second)
    later = clock.now() + timedelta(seconds=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    stranger.post(f"/messages/{first['headers']['message_id']}/ack").problem(410, "MESSAGE_DEAD")
    assert inbox(stranger) == []
    assert set(Message.objects.values_list("state", "reason")) == {("DEAD", "EXPIRED")}
    assert kinds()[-2:] == ["message:dead"] * 2


def test_the_sweeper_finds_what_nobody_fetched(trader: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    post(trader, message(ttl=5))
    post(trader, message(ttl=50))
    later = clock.now() + timedelta(seconds=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert (sweeper.sweep().messages, sweeper.sweep().messages) == (1, 0)
    assert list(Message.objects.order_by("pk").values_list("state", flat=True)) == ["DEAD", "WAITING"]


def test_a_full_mailbox_refuses(trader: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "MOST_WAITING", 2)
    sent = [message(conversation_id=f"talk-{number}") for number in range(3)]
    post(trader, sent[0])
    post(trader, sent[1])
    told = trader.post("/messages", sent[2])
    told.problem(429, "RATE_LIMITED")
    assert told.headers["Retry-After"]
    assert Conversation.objects.count() == 2


def test_versions_are_agreed_on_in_a_conversation(trader: Caller, stranger: Caller) -> None:
    def speaks(low: str, high: str) -> dict[str, Any]:
        return {"protocol_version": {"min_supported": low, "max_supported": high}}

    trader.post("/messages", message(**speaks("2.0", "3.0"))).problem(406, "VERSION_UNSUPPORTED")
    asked = message(**speaks("1.0", "1.4"))
    assert post(trader, asked)["protocol_version"] == "1.4.0"
    assert post(stranger, answer_to(asked, **speaks("1.1", "1.2")))["protocol_version"] == "1.2.0"
    told = trader.post("/messages", message(**speaks("1.3", "1.4"))).problem(406, "VERSION_UNSUPPORTED")
    assert told["supported"] == ">=1.1.0 <=1.2.0"
    ends = {"proposed_versions": ["1.1"], "deprecation_dates": {"1.2": "2027-01-31"}}
    answer = post(
        stranger, message(ends, **answer_to(asked)["headers"] | {"message_type": "VersionNegotiation"})
    )
    assert answer["deprecated_on"] is None
    assert post(trader, message())["deprecated_on"] == "2027-01-31"


def test_agents_that_answer_each_other_without_end_are_stopped(
    trader: Caller, stranger: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MOST_MESSAGES", 6)
    asked = message()
    post(trader, asked)
    for turn in range(5):
        post(*((stranger, answer_to(asked)) if turn % 2 == 0 else (trader, message())))
    trader.post("/messages", message()).problem(429, "BUDGET_EXCEEDED")
    stranger.post("/messages", answer_to(asked)).problem(429, "BUDGET_EXCEEDED")
    assert inbox(trader) == inbox(stranger) == []
    assert set(Message.objects.values_list("reason", flat=True)) == {"CONVERSATION_STOPPED"}
    assert kinds().count("conversation:stopped") == 1
    post(trader, message(conversation_id="talk-2"))
    assert findings.verify_all().findings == []


def test_agents_that_answer_too_fast_are_slowed_down(trader: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_AT_ONCE", 2)
    post(trader, message())
    post(trader, message())
    trader.post("/messages", message()).problem(429, "RATE_LIMITED")
    trader.post("/messages", message()).problem(429, "RATE_LIMITED")
    assert kinds().count("conversation:slowed") == 1
    assert findings.verify_all().findings == []


def test_a_conversation_is_its_agents_own(trader: Caller, stranger: Caller) -> None:
    post(trader, message())
    Message.objects.update(sender=None)  # as if the conversation were of others
    trader.post("/messages", message()).problem(403, "UNAUTHORIZED")
    post(stranger, answer_to(message()))


def test_what_was_erased_or_changed_is_not_delivered(trader: Caller, stranger: Caller) -> None:
    first, second, third = message(), message(), message()
    for sent in (first, second, third):
        post(trader, sent)
    rows = [Message.objects.get(message_id=sent["headers"]["message_id"]) for sent in (first, second)]
    ledger.empty_payloads(Payload.objects.filter(commitment=rows[0].commitment), at=clock.now())
    Message.objects.filter(pk=rows[1].pk).update(commitment="f" * 64)
    (got,) = inbox(stranger)
    assert got["headers"] == third["headers"]
    assert list(Message.objects.order_by("pk").values_list("reason", flat=True)) == ["ERASED", "TAMPERED", ""]


@pytest.mark.parametrize(
    ("column", "value"),
    [("key_id", "0123456789abcdef"), ("number", 7), ("protocol_version", "1.9.0"), ("size_bytes", 1)],
)
def test_nothing_of_a_changed_row_is_vouched_for(
    trader: Caller, stranger: Caller, column: str, value: object
) -> None:
    post(trader, message())
    Message.objects.update(**{column: value})
    assert inbox(stranger) == []
    assert Message.objects.get().reason == "TAMPERED"


def test_auditors_read_a_message_as_an_envelope(trader: Caller, stranger: Caller) -> None:
    key = talking.Key()
    talking.allow(message_key=key.public)
    sent = key.sign(message())
    post(trader, sent)
    reader = Caller(auditor_key())
    address = f"/audit/contracts/agent_message/{sent['headers']['message_id']}"
    shown = reader.get(address).ok()
    schema = json.loads(Path("docs/contracts/agent_message.schema.json").read_text())
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(shown)
    assert (shown["sender"]["subject_id"], shown["recipient"]["subject_id"]) == (
        "agent:trader",
        "agent:other-trader",
    )
    assert shown["payload"]["inputs"] == sent["payload"]
    assert shown["signature"]["sig"] == sent["headers"]["signatures"][0]["signature"]
    ledger.empty_payloads(Payload.objects.filter(), at=clock.now())
    erased = reader.get(address).ok()
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(erased)
    assert erased["payload"]["inputs"] is None
    reader.get("/audit/contracts/agent_message/01JDK5Q2M4Z7W0T8R6E3C1B9AY").problem(404, "NOT_FOUND")
