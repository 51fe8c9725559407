"""Labels by the API: what an agent says it has, what it passes on, and to whom."""

from typing import Any

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.source_labels import LabelSource
from runtime.contracts.states import AgentRole
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels
from tests.support import factories, talking
from tests.support.api_client import OTHER, TRADER, Caller

STEP = {"step_type": "retrieval", "digest": "a" * 64}


def labels_of(agent_id: str) -> list[str]:
    return list(agent_labels.held_by(Agent.objects.get(agent_id=agent_id), at=clock.now()))


def changes() -> list[dict[str, Any]]:
    return [row.payload for row in LedgerEntry.objects.filter(kind="agent:labels_changed").order_by("id")]


def give(*labels: str) -> None:
    agent = Agent.objects.get(agent_id=TRADER)
    agent_labels.receive(agent=agent, labels=labels, because=LabelSource.MEMORY, source="notes")


def test_steps_add_labels_that_the_agent_says_it_has(trader: Caller) -> None:
    dfid = trader.open_flow()
    trader.post(f"/flows/{dfid}/steps", {**STEP, "source_labels": ["user_input", "crm:7"]}).ok(201)
    trader.post(f"/flows/{dfid}/steps", {**STEP, "source_labels": ["user_input"]}).ok(201)
    (gained,) = changes()
    assert (gained["because"], gained["labels"]) == ("STEP", ["crm:7", "user_input"])


def test_a_child_has_the_labels_of_its_parent(trader: Caller, stranger: Caller) -> None:
    Agent.objects.filter(agent_id=TRADER).update(role=AgentRole.STRATEGIST)
    factories.change_manifest(TRADER, may_delegate_to=[OTHER])
    first = trader.open_flow()
    stranger.post("/flows", {"trigger": "x", "parent_dfid": first}).ok(201)
    assert labels_of(OTHER) == []
    give("untrusted")
    stranger.post("/flows", {"trigger": "x", "parent_dfid": first}).ok(201)
    assert labels_of(OTHER) == ["untrusted"]
    assert changes()[-1]["source"] == first


def test_a_message_carries_the_labels_of_its_sender(trader: Caller, stranger: Caller) -> None:
    trader.post("/messages", talking.message()).ok(201)
    stranger.get("/messages?after=0").ok()
    assert labels_of(OTHER) == []
    give("untrusted")
    sent = talking.message()
    trader.post("/messages", sent).ok(201)
    # Who has not read it has received nothing.
    assert labels_of(OTHER) == []
    assert len(stranger.get("/messages?after=0").ok()["messages"]) == 2
    assert labels_of(OTHER) == ["untrusted"]
    assert changes()[-1]["because"] == "MESSAGE"
    assert findings.verify_all().findings == []
    # And on it goes.
    stranger.post("/messages", talking.answer_to(sent)).ok(201)
    told = LedgerEntry.objects.filter(kind="message:sent").latest("id").payload
    assert told["labels"] == ["untrusted"]


def test_each_conversation_is_named_as_the_source_of_its_labels(trader: Caller, stranger: Caller) -> None:
    give("untrusted")
    trader.post("/messages", talking.message()).ok(201)
    give("secret")
    trader.post("/messages", talking.message(conversation_id="talk-2")).ok(201)
    stranger.get("/messages?after=0").ok()
    told = [(change["source"], change["gained"]) for change in changes() if change["because"] == "MESSAGE"]
    assert told == [("talk-1", ["untrusted"]), ("talk-2", ["secret", "untrusted"])]


def test_memory_carries_the_labels_of_its_writer(trader: Caller, stranger: Caller) -> None:
    for agent_id in (TRADER, OTHER):
        factories.change_manifest(agent_id, memory_scopes=[{"scope": "desk", "access": "READ_WRITE"}])
    write = {"value": {"note": "calm"}, "source": "agent"}
    trader.put("/memory/desk/before", write).ok()
    give("untrusted")
    trader.put("/memory/desk/after", write).ok()
    stranger.get("/memory/desk/before").ok()
    assert labels_of(OTHER) == []
    stranger.get("/memory/desk/after").ok()
    assert labels_of(OTHER) == ["untrusted"]
    assert (changes()[-1]["because"], changes()[-1]["source"]) == ("MEMORY", "desk")
    # What it wrote itself tells it nothing new.
    trader.get("/memory/desk/after").ok()
    assert len(changes()) == 2
    assert findings.verify_all().findings == []


def test_a_context_with_labelled_memory_labels_its_reader(trader: Caller, stranger: Caller) -> None:
    for agent_id in (TRADER, OTHER):
        factories.change_manifest(agent_id, memory_scopes=[{"scope": "desk", "access": "READ_WRITE"}])
    give("untrusted")
    trader.put("/memory/desk/after", {"value": 1, "source": "agent"}).ok()
    dfid = stranger.open_flow()
    stranger.context(dfid)
    stranger.context(dfid)
    assert labels_of(OTHER) == ["untrusted"]
    assert [change["source"] for change in changes()] == ["notes", dfid]
