"""Parents and children through the API: who may open one, what both show, and what ends with the parent."""

from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.contracts.states import AgentRole, AgentStatus, FlowState, IntentState
from runtime.flows.models import Flow, Intent
from runtime.kernel import flow_tree
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from tests.support import api_client, factories, gate_cases

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def delegate(*names: str, agent_id: str = api_client.TRADER) -> None:
    """Let an agent's active manifest delegate to others."""
    agent = Agent.objects.select_related("active_manifest").get(agent_id=agent_id)
    held = granted_kinds.manifest_of(agent)
    assert held is not None
    Agent.objects.filter(pk=agent.pk).update(role=AgentRole.STRATEGIST)
    factories.activate(agent, held.model_copy(update={"may_delegate_to": names, "version": "1.5.0"}))


def open_child(caller: api_client.Caller, parent: str, **headers: str) -> str:
    return str(caller.post("/flows", {"trigger": "x", "parent_dfid": parent}, headers).ok(201)["dfid"])


def kinds_of(dfid: str) -> list[str]:
    return list(LedgerEntry.objects.filter(stream=dfid).order_by("seq").values_list("kind", flat=True))


def test_parent_and_child_name_each_other(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    children = [open_child(trader, parent) for _ in range(2)]
    assert trader.get(f"/flows/{parent}").ok()["children"] == children
    assert trader.get(f"/flows/{parent}").ok()["parent_dfid"] is None
    shown = trader.get(f"/flows/{children[0]}").ok()
    assert (shown["parent_dfid"], shown["children"]) == (parent, [])
    assert kinds_of(parent) == ["flow:opened", "child:opened", "child:opened"]
    first = LedgerEntry.objects.get(stream=children[0], seq=1)
    assert first.payload["parent_dfid"] == parent


def test_a_child_belongs_to_the_agent_that_opens_it(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    delegate(api_client.OTHER)
    parent = trader.open_flow()
    child = open_child(stranger, parent)
    assert stranger.get(f"/flows/{child}").ok()["parent_dfid"] == parent
    trader.get(f"/flows/{child}").problem(404, "FLOW_NOT_FOUND")
    stranger.get(f"/flows/{parent}").problem(404, "FLOW_NOT_FOUND")
    entry = LedgerEntry.objects.get(stream=parent, kind="child:opened")
    assert entry.actor == "agent:other-trader"
    assert entry.payload == {"child_dfid": child, "agent_id": api_client.OTHER}


def test_without_delegation_a_parent_looks_like_none(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    mine, before = trader.open_flow(), Flow.objects.count()
    answers = [
        stranger.post("/flows", {"trigger": "x", "parent_dfid": dfid}).problem(404, "FLOW_NOT_FOUND")
        for dfid in (mine, UNKNOWN)
    ]
    assert answers[0] == answers[1]
    assert Flow.objects.count() == before
    delegate("somebody-else")
    stranger.post("/flows", {"trigger": "x", "parent_dfid": mine}).problem(404, "FLOW_NOT_FOUND")


@pytest.mark.parametrize("parent", ["", "x", UNKNOWN + "0", "{" + UNKNOWN + "}", "urn:uuid:" + UNKNOWN, 7])
def test_a_parent_of_another_form_is_refused(trader: api_client.Caller, parent: Any) -> None:
    body = {"trigger": "x", "parent_dfid": parent}
    assert (
        trader.post("/flows", body).problem(422, "INVALID_REQUEST")["violations"][0]["pointer"]
        == "/parent_dfid"
    )


def test_an_ended_parent_takes_no_child(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    trader.post(f"/flows/{parent}/close", {"reason": "done"}).ok()
    trader.post("/flows", {"trigger": "x", "parent_dfid": parent}).problem(409, "FLOW_NOT_OPEN")


def test_an_open_flow_under_an_ended_one_takes_no_child(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    child = open_child(trader, parent)
    # As after the parent's end, while the child's call was under way.
    Flow.objects.filter(dfid=parent).update(
        state=FlowState.CLOSED, ended_at=Flow.objects.get(dfid=child).opened_at
    )
    trader.post("/flows", {"trigger": "x", "parent_dfid": child}).problem(409, "FLOW_NOT_OPEN")


@pytest.mark.parametrize("status", [AgentStatus.SUSPENDED, AgentStatus.LOCKED, AgentStatus.RETIRED])
def test_an_agent_that_is_held_delegates_nothing(
    trader: api_client.Caller, stranger: api_client.Caller, status: AgentStatus
) -> None:
    delegate(api_client.OTHER)
    parent = trader.open_flow()
    Agent.objects.filter(agent_id=api_client.TRADER).update(status=status)
    body = {"trigger": "x", "parent_dfid": parent}
    stranger.post("/flows", body).problem(409, f"AGENT_{status}")


def test_a_family_has_so_many_levels(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    for _ in range(flow_tree.MAX_DEPTH):
        dfid = open_child(trader, dfid)
    trader.post("/flows", {"trigger": "x", "parent_dfid": dfid}).problem(409, "TOO_DEEP")
    assert Flow.objects.get(dfid=dfid).depth == flow_tree.MAX_DEPTH


def test_open_children_are_bounded_and_an_ended_one_makes_room(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_tree, "MAX_OPEN_CHILDREN", 2)
    parent = trader.open_flow()
    first, _ = open_child(trader, parent), open_child(trader, parent)
    body = {"trigger": "x", "parent_dfid": parent}
    trader.post("/flows", body).problem(409, "TOO_MANY_CHILDREN")
    trader.post(f"/flows/{first}/close", {"reason": "done"}).ok()
    trader.post("/flows", body).ok(201)


def test_a_whole_family_is_bounded(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_tree, "MAX_OPEN_FAMILY", 2)
    root = trader.open_flow()
    open_child(trader, child := open_child(trader, root))
    for dfid in (root, child):
        trader.post("/flows", {"trigger": "x", "parent_dfid": dfid}).problem(409, "TOO_MANY_CHILDREN")


def test_a_repeated_key_opens_one_child_also_after_the_parent_has_ended(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    body, headers = {"trigger": "x", "parent_dfid": parent}, {"Idempotency-Key": "one"}
    first = trader.post("/flows", body, headers).ok(201)
    trader.post(f"/flows/{parent}/close", {"reason": "done"}).ok()
    assert trader.post("/flows", body, headers).ok(201) == first
    assert Flow.objects.count() == 2


def test_a_refused_child_can_be_asked_for_again_under_its_key(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = trader.open_flow()
    body, headers = {"trigger": "x", "parent_dfid": parent}, {"Idempotency-Key": "one"}
    monkeypatch.setattr(flow_tree, "MAX_OPEN_CHILDREN", 0)
    trader.post("/flows", body, headers).problem(409, "TOO_MANY_CHILDREN")
    monkeypatch.setattr(flow_tree, "MAX_OPEN_CHILDREN", 1)
    trader.post("/flows", body, headers).ok(201)


@pytest.mark.parametrize("action", ["close", "cancel"])
def test_what_waits_ends_with_its_parent(trader: api_client.Caller, action: str) -> None:
    parent = trader.open_flow()
    created, active, accepted, escalated = (open_child(trader, parent) for _ in range(4))
    grandchild = open_child(trader, created)
    trader.context(active)
    verdict = trader.propose(accepted, api_client.proposal(trader.context(accepted))).ok()
    asked = api_client.proposal(trader.context(escalated), human_review_required=True)
    assert trader.propose(escalated, asked).ok()["verdict"] == "ESCALATE"
    trader.post(f"/flows/{parent}/{action}", {"reason": "the strategy is over"}).ok()
    for dfid in (created, active, accepted, escalated, grandchild):
        shown = trader.get(f"/flows/{dfid}").ok()
        assert (shown["state"], shown["reason"]) == ("ABORTED", "PARENT_ENDED"), dfid
        event = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
        assert event["event_type"] == "FLOW_ABORTED"
        assert event["data"] == {"reason": "PARENT_ENDED", "parent_dfid": shown["parent_dfid"]}
    assert Intent.objects.get(intent_id=verdict["intent_id"]).state == IntentState.CANCELLED
    assert "intent:cancelled" in kinds_of(accepted)
    assert kinds_of(escalated)[-3:] == ["escalation:withdrawn", "flow:moved", "record:emitted"]


def test_siblings_and_other_families_go_on(trader: api_client.Caller) -> None:
    root, other = trader.open_flow(), trader.open_flow()
    left, right = open_child(trader, root), open_child(trader, root)
    below = open_child(trader, left)
    trader.post(f"/flows/{left}/close", {"reason": "done"}).ok()
    states = {dfid: trader.get(f"/flows/{dfid}").ok()["state"] for dfid in (root, other, right, left, below)}
    assert states == {root: "CREATED", other: "CREATED", right: "CREATED", left: "CLOSED", below: "ABORTED"}


def test_a_parent_that_the_gate_aborts_takes_its_children_along(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    child = open_child(trader, parent)
    for _ in range(gate_cases.manifest().max_intent_retries):
        trader.propose(parent, api_client.proposal("unknown")).ok()
    assert trader.get(f"/flows/{parent}").ok()["reason"] == "REASONING_EXHAUSTION"
    assert trader.get(f"/flows/{child}").ok()["reason"] == "PARENT_ENDED"
