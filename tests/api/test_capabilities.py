"""What agents offer each other: advertising, asking who does, heartbeats, and what a person decides."""

from typing import Any

import pytest
from django.utils import timezone

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.message import MAX_BYTES
from runtime.contracts.problem import Problem
from runtime.conversations.models import Capability, Message
from runtime.conversations.services import capabilities
from runtime.kernel.capability_health import ListingState
from runtime.registry.models import Agent
from tests.support import api_client, factories, talking
from tests.support.api_client import OTHER, TRADER, Caller
from tests.support.talking import message

OFFER = {
    "capability_name": "risk.advice",
    "versions": ["1.0", "1.10", "1.2"],
    "SLA": {"p50_ms": 200, "p95_ms": 900},
    "cost_model": {"per_call": 2},
    "privacy_level": "internal",
    "jurisdiction": ["EU"],
    "tags": ["risk"],
}


def to_registry(kind: str, payload: dict[str, Any], agent_id: str = OTHER, **headers: Any) -> dict[str, Any]:
    return message(
        payload,
        **{
            "message_type": kind,
            "from_agent_id": agent_id,
            "to_agent_id": None,
            "conversation_id": f"registry-{agent_id}",
            **headers,
        },
    )


def offer(provider: Caller, **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = provider.post(
        "/messages", to_registry("CapabilityAdvertise", OFFER | changes)
    ).ok(201)
    return answer


def named(caller: Caller, query: str = "") -> list[str]:
    found = caller.get(f"/capabilities{query}").ok()["capabilities"]
    return [record["capability_name"] for record in found]


def test_what_is_advertised_is_named_with_its_claims(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    (record,) = trader.get("/capabilities?capability_name=risk.advice").ok()["capabilities"]
    assert record["provider_agent_id"] == OTHER
    assert record["version_range"] == {"min": "1.0", "max": "1.10"}
    assert record["SLA"] == OFFER["SLA"]
    assert record["health"]["state"] == "LISTED"
    assert named(trader, "?latency_ms=900&cost_ceiling=2&jurisdiction=EU&tag=risk&version=1.2") == [
        "risk.advice"
    ]
    assert named(trader, "?latency_ms=100") == named(trader, "?jurisdiction=US") == []
    assert named(stranger) == []  # nobody asks itself
    trader.get("/capabilities?latency_ms=fast").problem(422, "INVALID_REQUEST")
    assert findings.verify_all().findings == []


def test_a_query_by_message_is_answered_into_the_mailbox(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    asked = to_registry("CapabilityQuery", {"capability_name": "risk.advice"}, TRADER)
    trader.post("/messages", asked).ok(201)
    unknown = to_registry("CapabilityQuery", {"capability_name": "poems"}, TRADER)
    trader.post("/messages", unknown).ok(201)
    resolution, error = trader.get("/messages").ok()["messages"]
    assert resolution["headers"]["message_type"] == "CapabilityResolution"
    assert resolution["headers"]["correlation_id"] == asked["headers"]["message_id"]
    assert resolution["headers"]["from_agent_id"] is None
    assert [each["provider_agent_id"] for each in resolution["payload"]["providers"]] == [OTHER]
    assert error["headers"]["message_type"] == "Error"
    assert error["headers"]["correlation_id"] == unknown["headers"]["message_id"]
    assert error["payload"]["code"] == "CAPABILITY_NOT_FOUND"
    for each in (resolution, error):
        assert trader.post(f"/messages/{each['headers']['message_id']}/ack").ok()["taken_here"]
    assert findings.verify_all().findings == []


def test_the_manifest_says_what_may_be_advertised(trader: Caller, stranger: Caller) -> None:
    talking.allow(OTHER, advertises=["poems"])
    refused = to_registry("CapabilityAdvertise", OFFER)
    stranger.post("/messages", refused).problem(403, "UNAUTHORIZED")
    offer(stranger, capability_name="poems")
    assert named(trader) == ["poems"]
    talking.allow(TRADER, messages_to=["somebody-else"])
    assert named(trader) == []


def test_an_agent_offers_a_bounded_number(stranger: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "MOST_PER_AGENT", 1)
    offer(stranger)
    offer(stranger, tags=["again"])
    more = to_registry("CapabilityAdvertise", OFFER | {"capability_name": "more"})
    stranger.post("/messages", more).problem(429, "BUDGET_EXCEEDED")
    assert Capability.objects.count() == 1


def test_a_provider_that_says_it_cannot_is_not_named(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    for status in ("degraded", "unavailable", "unavailable", "unavailable", "healthy"):
        stranger.post("/messages", to_registry("Heartbeat", {"status": status})).ok(201)
        assert (named(trader) == []) == (status in {"unavailable", "healthy"})
    row = Capability.objects.get()
    assert (row.state, row.failures, row.quarantines) == ("QUARANTINED", 0, 1)
    assert findings.verify_all().findings == []


def test_an_agent_that_is_held_is_not_named(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    Agent.objects.filter(agent_id=OTHER).update(status="SUSPENDED")
    assert named(trader) == []


def test_a_person_decides_over_health(trader: Caller, stranger: Caller) -> None:
    offer(stranger)

    def decide(state: ListingState | None, seen: str, reason: str = "It lied.") -> Any:
        return capabilities.override(
            tenant="default",
            pk=Capability.objects.get().pk,
            state=state,
            seen=seen,
            reason=reason,
            actor="user:1",
        )

    assert isinstance(decide(ListingState.DELISTED, "", " "), Problem)
    assert not isinstance(decide(ListingState.DELISTED, ""), Problem)
    assert isinstance(decide(ListingState.LISTED, ""), Problem)  # somebody else has decided since
    assert named(trader) == []
    offer(stranger, tags=["new"])
    assert named(trader) == []  # advertising again takes nothing back
    decide(None, "DELISTED")
    assert named(trader) == ["risk.advice"]
    entries = LedgerEntry.objects.filter(kind="capability:overridden")
    assert [entry.payload["state"] for entry in entries.order_by("pk")] == ["DELISTED", ""]
    assert findings.verify_all().findings == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "DELISTED"),
        ("failures", 2),
        ("override_reason", "x"),
        ("status", "degraded"),
        ("body", b"{}"),
    ],
)
def test_a_changed_record_is_found(stranger: Caller, column: str, value: Any) -> None:
    offer(stranger)
    Capability.objects.update(**{column: value})
    assert findings.verify_all().findings


def test_claims_that_were_changed_are_not_named(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    Capability.objects.update(body=b'{"capability_name":"risk.advice","versions":["1.0"]}')
    assert named(trader) == []


def test_an_answer_of_the_registry_is_no_longer_than_a_message(trader: Caller, stranger: Caller) -> None:
    """Claims may be nearly as long as a message: what does not fit beside better ones is left out."""
    stranger.post("/messages", to_registry("CapabilityAdvertise", OFFER)).ok(201)
    claims = OFFER | {"SLA": {"p95_ms": 900, "story": "x" * 40_000}, "cost_model": {"per_call": 3}}
    for name in ("third", "fourth"):
        factories.desk(agent_id=name)
        offered = to_registry("CapabilityAdvertise", claims, name)
        api_client.session(name).post("/messages", offered).ok(201)
    asked = to_registry("CapabilityQuery", {"capability_name": "risk.advice"}, TRADER)
    trader.post("/messages", asked).ok(201)
    (answer,) = trader.get("/messages").ok()["messages"]
    assert [each["provider_agent_id"] for each in answer["payload"]["providers"]] == [OTHER, "fourth"]
    assert Message.objects.get(correlation_id=asked["headers"]["message_id"]).size_bytes <= MAX_BYTES


def test_nobody_is_named_to_an_agent_without_a_manifest(trader: Caller, stranger: Caller) -> None:
    offer(stranger)
    assert named(trader) == ["risk.advice"]
    Agent.objects.filter(agent_id=TRADER).update(active_manifest=None)
    assert named(trader) == []


def test_a_message_to_the_registry_may_be_about_a_flow_of_its_sender(
    trader: Caller, stranger: Caller
) -> None:
    dfid = trader.open_flow()
    about = to_registry("CapabilityQuery", {"capability_name": "poems"}, TRADER, dfid=dfid)
    trader.post("/messages", about).ok(201)
    assert str(Message.objects.get(message_id=about["headers"]["message_id"]).flow_id) == dfid
    not_theirs = to_registry("CapabilityQuery", {"capability_name": "poems"}, dfid=dfid)
    stranger.post("/messages", not_theirs).problem(404, "FLOW_NOT_FOUND")
    assert findings.verify_all().findings == []


@pytest.mark.parametrize(
    "columns",
    [{"state": "SOMEHOW"}, {"override": "SOMEHOW", "override_by": "somebody", "override_at": timezone.now()}],
    ids=["state", "override"],
)
def test_a_record_with_a_word_that_is_not_ours_is_not_named(
    trader: Caller, stranger: Caller, columns: dict[str, object]
) -> None:
    offer(stranger)
    Capability.objects.update(**columns)
    assert named(trader) == []
