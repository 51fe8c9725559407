"""Flows: opened, looked at, withdrawn and closed by the agent that owns them."""

from typing import Any

import pytest

from audit import canonical
from audit.models import LedgerEntry, Payload
from runtime.contracts.states import AgentStatus, AttemptState, FlowState, IntentState
from runtime.core import clock
from runtime.flows.models import Attempt, Flow, Intent
from runtime.registry.models import Agent
from tests.support import api_client

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNKNOWN = "01890000-0000-7000-8000-000000000000"


def accepted(caller: api_client.Caller) -> tuple[str, Intent]:
    dfid = caller.open_flow()
    verdict = caller.propose(dfid, api_client.proposal(caller.context(dfid))).ok()
    return dfid, Intent.objects.get(intent_id=verdict["intent_id"])


def kinds_of(dfid: str) -> list[str]:
    return list(LedgerEntry.objects.filter(stream=dfid).order_by("seq").values_list("kind", flat=True))


@pytest.mark.parametrize(
    "trigger", ["a price moved", "x" * 2000, {}, {"source": {"n": [1, None]}}, "🜁\u202e"]
)
def test_opens_a_flow_for_a_sentence_or_an_object(trader: api_client.Caller, trigger: Any) -> None:
    body = trader.post("/flows", {"trigger": trigger}).ok(201)
    assert set(body) == {"dfid", "state"}
    assert body["state"] == "CREATED"
    flow = Flow.objects.get(dfid=body["dfid"])
    assert canonical.decode(bytes(flow.trigger)) == trigger
    assert flow.dfid.version == 7
    entry = LedgerEntry.objects.get(stream=body["dfid"])
    assert (entry.kind, entry.actor) == ("flow:opened", "agent:trader")
    kept = Payload.objects.get(commitment=entry.payload["trigger_commitment"])
    assert kept.body is not None
    assert bytes(kept.body) == bytes(flow.trigger)


def test_shows_a_flow_to_its_agent(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    assert trader.get(f"/flows/{dfid}").ok() == {
        "dfid": dfid,
        "state": "CREATED",
        "reason": None,
        "attempts_left": 3,
        "parent_dfid": None,
        "children": [],
        "autonomy": "AUTONOMOUS",
        "budget": {
            "escalation_tokens": 3,
            "tokens_left": None,
            "cost_left_usd": None,
            "tool_calls_left": None,
            "wall_clock_left_s": None,
        },
    }


def test_hides_a_flow_from_every_other_agent(trader: api_client.Caller, stranger: api_client.Caller) -> None:
    dfid = trader.open_flow()
    for target in (dfid, UNKNOWN):
        stranger.get(f"/flows/{target}").problem(404, "FLOW_NOT_FOUND")
        stranger.get(f"/flows/{target}/feedback").problem(404, "FLOW_NOT_FOUND")
        stranger.post(f"/flows/{target}/context").problem(404, "FLOW_NOT_FOUND")
        stranger.post(f"/flows/{target}/cancel", {"reason": "mine"}).problem(404, "FLOW_NOT_FOUND")
        stranger.post(f"/flows/{target}/close", {"reason": "mine"}).problem(404, "FLOW_NOT_FOUND")
        stranger.propose(target, api_client.proposal()).problem(404, "FLOW_NOT_FOUND")
    assert kinds_of(dfid) == ["flow:opened"]


@pytest.mark.parametrize("path", ["/flows/x", "/flows/1", f"/flows/{UNKNOWN}0", f"/flows/{UNKNOWN.upper()}x"])
def test_an_id_of_another_form_is_not_found(trader: api_client.Caller, path: str) -> None:
    trader.get(path).problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (TRACE, TRACE),
        ("", ""),
        (TRACE.upper(), ""),
        ("ff" + TRACE[2:], ""),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01", ""),
        (TRACE + "-x", ""),
        ("trader", ""),
    ],
)
def test_keeps_a_well_formed_trace_and_drops_any_other(
    trader: api_client.Caller, sent: str, kept: str
) -> None:
    body = trader.post("/flows", {"trigger": "x"}, {"traceparent": sent}).ok(201)
    assert Flow.objects.get(dfid=body["dfid"]).traceparent == kept
    assert LedgerEntry.objects.get(stream=body["dfid"]).payload["traceparent"] == (kept or None)


def test_a_repeated_key_opens_one_flow(trader: api_client.Caller, stranger: api_client.Caller) -> None:
    headers = {"Idempotency-Key": "one"}
    first = trader.post("/flows", {"trigger": "x", "parent_dfid": None}, headers)
    again = trader.call("POST", "/flows", raw=b' {"parent_dfid":null,"trigger":"x"} ', headers=headers)
    assert first.ok(201) == again.ok(201)
    assert Flow.objects.count() == 1
    trader.post("/flows", {"trigger": "y"}, headers).problem(422, "IDEMPOTENCY_KEY_REUSED")
    assert stranger.post("/flows", {"trigger": "x", "parent_dfid": None}, headers).ok(201) != first.body
    assert Flow.objects.count() == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "é"])
def test_refuses_a_key_of_another_form(trader: api_client.Caller, key: str) -> None:
    headers = {"Idempotency-Key": key}
    trader.post("/flows", {"trigger": "x"}, headers).problem(400, "IDEMPOTENCY_KEY_INVALID")


def test_a_passive_agent_may_read_but_its_proposal_is_refused(trader: api_client.Caller) -> None:
    Agent.objects.filter(agent_id="trader").update(status=AgentStatus.PASSIVE)
    dfid = trader.open_flow()
    verdict = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    assert verdict["verdict"] == "REJECT"
    assert [reason["code"] for reason in verdict["reasons"]] == ["AGENT_PASSIVE"]


def test_withdraws_a_flow_that_proposed_nothing(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    answer = trader.post(f"/flows/{dfid}/cancel", {"reason": "changed my mind"}).ok()
    assert answer == {"dfid": dfid, "state": "ABORTED"}
    assert trader.get(f"/flows/{dfid}").ok()["reason"] == "CANCELLED_BY_AGENT"
    event = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert event["event_type"] == "FLOW_ABORTED"
    assert event["data"] == {"reason": "CANCELLED_BY_AGENT", "detail": "changed my mind"}
    assert kinds_of(dfid) == ["flow:opened", "flow:moved", "record:emitted"]
    for action in ("cancel", "close"):
        trader.post(f"/flows/{dfid}/{action}", {"reason": "again"}).problem(409, "FLOW_NOT_OPEN")
    trader.post(f"/flows/{dfid}/context").problem(409, "FLOW_NOT_OPEN")
    trader.propose(dfid, api_client.proposal()).problem(409, "FLOW_NOT_OPEN")


def test_withdraws_an_intent_that_nobody_has_claimed(trader: api_client.Caller) -> None:
    dfid, intent = accepted(trader)
    assert trader.post(f"/flows/{dfid}/cancel", {"reason": "too late"}).ok()["state"] == "ABORTED"
    intent.refresh_from_db()
    assert intent.state == IntentState.CANCELLED
    assert intent.finished_at is not None
    assert kinds_of(dfid)[-3:] == ["intent:cancelled", "flow:moved", "record:emitted"]


@pytest.mark.parametrize("state", [IntentState.CLAIMED, IntentState.IN_DOUBT, IntentState.WITH_PERSON])
def test_does_not_withdraw_what_is_being_carried_out(trader: api_client.Caller, state: IntentState) -> None:
    dfid, intent = accepted(trader)
    lease = clock.now() if state is IntentState.CLAIMED else None
    Intent.objects.filter(pk=intent.pk).update(state=state, lease_until=lease)
    Flow.objects.filter(dfid=dfid).update(state=FlowState.EXECUTING)
    trader.post(f"/flows/{dfid}/cancel", {"reason": "stop"}).problem(409, "ALREADY_CLAIMED")
    assert trader.get(f"/flows/{dfid}").ok()["state"] == "EXECUTING"


@pytest.mark.parametrize(
    ("attempt", "status"), [(AttemptState.FAILED, 409), (AttemptState.HELD, 200), (None, 200)]
)
def test_an_intent_that_waits_for_its_next_try_was_claimed(
    trader: api_client.Caller, attempt: AttemptState | None, status: int
) -> None:
    dfid, intent = accepted(trader)
    if attempt is not None:
        Attempt.objects.create(
            intent=intent,
            number=1,
            step="order",
            target_key="k",
            lease_owner="w",
            state=attempt,
            started_at=clock.now(),
        )
    assert trader.post(f"/flows/{dfid}/cancel", {"reason": "stop"}).status == status


def test_withdraws_an_escalation_with_its_flow(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid), human_review_required=True)
    assert trader.propose(dfid, body).ok()["verdict"] == "ESCALATE"
    assert trader.post(f"/flows/{dfid}/cancel", {"reason": "no"}).ok()["state"] == "ABORTED"
    assert "escalation:opened" in kinds_of(dfid)


def test_closes_a_flow_that_only_read(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.context(dfid)
    assert trader.post(f"/flows/{dfid}/close", {"reason": "nothing to do"}).ok()["state"] == "CLOSED"
    event = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert (event["event_type"], event["data"]["detail"]) == ("FLOW_CLOSED", "nothing to do")
    trader.post(f"/flows/{dfid}/close", {"reason": "again"}).problem(409, "FLOW_NOT_OPEN")


def test_does_not_close_a_flow_with_an_open_intent(trader: api_client.Caller) -> None:
    dfid, _ = accepted(trader)
    problem = trader.post(f"/flows/{dfid}/close", {"reason": "done"}).problem(409, "FLOW_NOT_OPEN")
    assert problem["dfid"] == dfid


@pytest.mark.parametrize(
    "body", [{}, {"reason": ""}, {"reason": "x" * 501}, {"reason": 1}, {"reason": "x", "by": "y"}]
)
@pytest.mark.parametrize("action", ["cancel", "close"])
def test_asks_for_a_reason(trader: api_client.Caller, action: str, body: dict[str, Any]) -> None:
    dfid = trader.open_flow()
    trader.post(f"/flows/{dfid}/{action}", body).problem(422, "INVALID_REQUEST")
    assert trader.get(f"/flows/{dfid}").ok()["state"] == "CREATED"
