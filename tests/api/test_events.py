"""The agent's own stream of events: found by comparing, in order, bounded, and told once."""

from datetime import timedelta
from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.contexts.models import AgentEvent, Inbox, Timer
from runtime.contexts.services import agent_events
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.state.services import facts
from runtime.stops.services import stops
from tests.api.test_children import delegate
from tests.support import api_client


def write(path: str, value: Any) -> None:
    facts.write(tenant="default", path=path, value=value, writer="feed:prices", expected_version=None)


def told(caller: api_client.Caller, after: int = 0) -> list[tuple[str, Any]]:
    events = caller.get(f"/events?after={after}").ok()["events"]
    return [(event["event_type"], event["data"]) for event in events]


def test_nothing_has_happened_since_the_handshake(trader: api_client.Caller) -> None:
    assert trader.get("/events").ok() == {"events": [], "next": 0, "gap": False}
    assert not AgentEvent.objects.exists()


def test_a_fact_that_moved_twice_is_one_event(trader: api_client.Caller) -> None:
    write("price.AAPL", 19000)
    write("price.AAPL", 19001)
    assert told(trader) == [("FACT_CHANGED", {"path": "price.AAPL", "version": 3})]
    assert told(trader) == [("FACT_CHANGED", {"path": "price.AAPL", "version": 3})]
    assert told(trader, after=1) == []
    write("price.AAPL", 19002)
    assert told(trader, after=1) == [("FACT_CHANGED", {"path": "price.AAPL", "version": 4})]


def test_facts_that_the_agent_need_not_know_are_not_told(trader: api_client.Caller) -> None:
    write("cash.main", 1)
    write("prices.AAPL", 1)
    assert told(trader) == []


def test_what_moved_before_a_second_handshake_is_told_after_it(trader: api_client.Caller) -> None:
    write("market.state", "CLOSED")
    assert told(api_client.session()) == [("FACT_CHANGED", {"path": "market.state", "version": 2})]


def test_status_and_stops_are_told_in_the_order_of_their_streams(trader: api_client.Caller) -> None:
    stops.stop_all(tenant="default", actor="user:1", reason="drill")
    stops.resume_all(tenant="default", actor="user:1")
    stops.stop_agent(tenant="default", agent_id="trader", actor="user:1", reason="look into it")
    stops.stop_agent(tenant="default", agent_id="other-trader", actor="user:1", reason="not yours")
    agents.set_status(
        tenant="default", agent_id="trader", status=AgentStatus.PASSIVE, reason="rest", actor="user:1"
    )
    moved = {"from_status": "ACTIVE", "to_status": "PASSIVE"}
    assert told(trader) == [
        ("STOPPED", {"scope": "system", "reason": "drill"}),
        ("RESUMED", {"scope": "system", "reason": ""}),
        ("STOPPED", {"scope": "agent", "reason": "look into it"}),
        ("STATUS_CHANGED", {"scope": "agent", "reason": "rest", **moved}),
    ]


def test_a_spent_token_and_a_refilled_one_are_told(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal(trader.context(dfid), human_review_required=True)).ok()
    assert told(trader) == [("BUDGET_CHANGED", {"escalation_tokens": 2})]
    Agent.objects.filter(agent_id="trader").update(escalation_millitokens=3000, bucket_at=clock.now())
    assert told(trader, after=1) == [("BUDGET_CHANGED", {"escalation_tokens": 3})]


def test_the_end_of_a_child_is_told_to_who_delegated(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    delegate(api_client.OTHER)
    parent = trader.open_flow()
    child = stranger.post("/flows", {"trigger": "x", "parent_dfid": parent}).ok(201)["dfid"]
    assert [kind for kind, _ in told(trader)] == ["MANIFEST_ACTIVATED"]
    stranger.post(f"/flows/{child}/close", {"reason": "done"}).ok()
    ended = {
        "dfid": child,
        "parent_dfid": parent,
        "agent_id": "other-trader",
        "state": "CLOSED",
        "reason": "",
    }
    assert told(trader, after=1) == [("CHILD_ENDED", ended)]
    assert told(trader, after=2) == []
    assert told(stranger) == []


def test_a_timer_rings_once(trader: api_client.Caller) -> None:
    answer = trader.post("/timers", {"after_s": 60, "label": "look at the open orders"}).ok(201)
    assert told(trader) == []
    Timer.objects.update(due_at=clock.now() - timedelta(seconds=1))
    body = {"timer_id": answer["timer_id"], "label": "look at the open orders"}
    assert told(trader) == [("TIMER", body)]
    assert not Timer.objects.exists()
    assert told(trader, after=1) == []


def test_timers_are_bounded(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_events, "MAX_TIMERS", 1)
    trader.post("/timers", {"after_s": 60, "label": "x"}).ok(201)
    trader.post("/timers", {"after_s": 60, "label": "x"}).problem(409, "TOO_MANY_TIMERS")


@pytest.mark.parametrize("change", [{"after_s": 0}, {"after_s": 2_592_001}, {"label": ""}, {"at": "noon"}])
def test_refuses_a_timer_of_another_form(trader: api_client.Caller, change: dict[str, Any]) -> None:
    body = {"after_s": 60, "label": "x", **change}
    trader.post("/timers", body).problem(422, "INVALID_REQUEST")


def test_only_the_newest_are_kept_and_a_late_reader_learns_of_the_gap(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_events, "KEPT", 3)
    for value in range(5):
        write("price.AAPL", value)
        trader.get("/events").ok()
    assert AgentEvent.objects.count() == 3
    assert trader.get("/events?after=1").ok()["gap"] is True
    assert trader.get("/events?after=2").ok()["gap"] is False
    assert [event["seq"] for event in trader.get("/events?after=0").ok()["events"]] == [3, 4, 5]


def test_an_agent_that_never_reads_costs_no_row(trader: api_client.Caller) -> None:
    before = LedgerEntry.objects.filter(stream="agent:trader").count()
    for value in range(20):
        write("price.AAPL", value)
    assert AgentEvent.objects.count() == 0
    assert LedgerEntry.objects.filter(stream="agent:trader").count() == before
    assert Inbox.objects.get(agent__agent_id="trader").seq == 0


def test_an_agent_from_before_its_stream_begins_with_the_world_as_it_is(trader: api_client.Caller) -> None:
    Inbox.objects.all().delete()
    write("price.AAPL", 1)
    assert told(trader) == []
    write("price.AAPL", 2)
    assert told(trader) == [("FACT_CHANGED", {"path": "price.AAPL", "version": 3})]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "wait=31", "after=2147483648"])
def test_refuses_a_cursor_or_a_wait_of_another_form(trader: api_client.Caller, query: str) -> None:
    trader.get(f"/events?{query}").problem(422, "INVALID_REQUEST")
