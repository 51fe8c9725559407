"""`POST /flows/{dfid}/usage`: what is left, the hard stop, and what cannot be a report."""

from typing import Any

import pytest

from runtime.packs.services import packs
from runtime.resources.models import ComputeBudget
from tests.support import api_client

CAPS = '{tokens: 1000, cost_usd: "0.50", tool_calls: 5, wall_clock_s: 600}'
COMPUTE = f"escalations_per_hour: 3\n      compute: {CAPS}"


@pytest.fixture
def trader(db: None) -> api_client.Caller:
    """A session of an agent with a compute budget."""
    text = api_client.PACK.replace("escalations_per_hour: 3", COMPUTE)
    loaded = packs.load(text=text, source="ground.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    return api_client.session()


def report(caller: api_client.Caller, dfid: str, body: Any, key: str = "") -> api_client.Heard:
    return caller.post(f"/flows/{dfid}/usage", body, {"Idempotency-Key": key} if key else None)


def test_answers_what_is_left(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    body = report(trader, dfid, {"tokens": 10, "cost_usd": "0.125"}).ok()
    assert body["wall_clock_left_s"] in range(590, 601)
    assert body | {"wall_clock_left_s": 600} == {
        "tokens_left": 990,
        "cost_left_usd": "0.375",
        "tool_calls_left": 5,
        "wall_clock_left_s": 600,
        "state": "CREATED",
    }
    budget = trader.get(f"/flows/{dfid}").ok()["budget"]
    assert (budget["tokens_left"], budget["cost_left_usd"]) == (990, "0.375")


def test_past_the_cap_is_429_and_the_flow_is_aborted(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    problem = report(trader, dfid, {"tokens": 1001}).problem(429, "BUDGET_EXCEEDED")
    assert (problem["dfid"], problem["retriable"]) == (dfid, False)
    assert "Retry-After" not in report(trader, dfid, {"tokens": 1}).headers
    flow = trader.get(f"/flows/{dfid}").ok()
    assert (flow["state"], flow["reason"]) == ("ABORTED", "BUDGET_EXCEEDED")
    assert flow["budget"]["tokens_left"] == 0
    told = trader.get(f"/flows/{dfid}/feedback").ok()["events"][-1]
    assert (told["event_type"], told["data"]["reason"]) == ("FLOW_ABORTED", "BUDGET_EXCEEDED")
    assert told["data"]["details"] == [{"bound": "tokens", "proposed_value": 1001, "limit": 1000}]
    trader.propose(dfid, api_client.proposal("c" * 64)).problem(409, "FLOW_NOT_OPEN")
    report(trader, dfid, {"tokens": 1}).problem(429, "BUDGET_EXCEEDED")


def test_a_repeat_adds_nothing(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    first = report(trader, dfid, {"tokens": 10}, key="k").ok()
    assert report(trader, dfid, {"tokens": 10}, key="k").ok() == first
    report(trader, dfid, {"tokens": 11}, key="k").problem(422, "IDEMPOTENCY_KEY_REUSED")
    assert ComputeBudget.objects.get(flow_id=dfid).tokens_used == 10
    stopping = report(trader, dfid, {"tokens": 5000}, key="s").problem(429, "BUDGET_EXCEEDED")
    assert report(trader, dfid, {"tokens": 5000}, key="s").problem(429, "BUDGET_EXCEEDED") == stopping
    assert report(trader, dfid, {"tokens": 10}, key="k").ok() == first


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": "1"},
        {"tokens": True},
        {"tokens": 10**13},
        {"tokens": 1, "cost_usd": 0.5},
        {"tokens": 1, "cost_usd": "-0.5"},
        {"tokens": 1, "cost_usd": "0.0000001"},
        {"tokens": 1, "cost_usd": "1e3"},
        {"tokens": 1, "tool_calls": -1},
        {"tokens": 1, "agent_id": "trader"},
    ],
)
def test_what_is_no_report_changes_nothing(trader: api_client.Caller, body: dict[str, Any]) -> None:
    dfid = trader.open_flow()
    report(trader, dfid, body).problem(422, "INVALID_REQUEST")
    assert ComputeBudget.objects.get(flow_id=dfid).tokens_used == 0


def test_another_agents_flow_is_not_there(trader: api_client.Caller) -> None:
    stranger = api_client.session(api_client.OTHER)
    report(stranger, trader.open_flow(), {"tokens": 1}).problem(404, "FLOW_NOT_FOUND")
