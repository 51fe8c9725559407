"""The demo pack at the API: each kind of proposal gets the verdict that the demo is built around."""

from typing import Any

import pytest

from audit import canonical
from escalations.models import Escalation
from runtime.contexts.models import Snapshot
from runtime.flows.models import Intent
from runtime.packs.services import packs
from runtime.state.models import Fact
from tests.packs.test_packs import DEMO
from tests.support import api_client

pytestmark = pytest.mark.django_db
AGENT = "ambitious-trader"
ORDER = {"symbol": "AAPL", "action": "BUY", "quantity": 3, "notional_cents": 56850}


@pytest.fixture
def caller() -> api_client.Caller:
    """A session of the agent that may do everything."""
    loaded = packs.load(text=DEMO.read_text(), source=DEMO.name, activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    body = api_client.hello(AGENT, manifest_version="1.0.0")
    answer = api_client.Caller(api_client.agent_key(AGENT)).post("/handshake", body).ok()
    return api_client.Caller(answer["session_token"])


def move(path: str, value: Any) -> None:
    Fact.objects.filter(path=path).update(value=canonical.encode(value))


def propose(
    caller: api_client.Caller, kind: str, params: dict[str, Any], moved: Any = None, **bounds: Any
) -> Any:
    dfid = caller.open_flow()
    ref = caller.context(dfid)
    if moved is not None:
        move("price.AAPL", moved)
    body = {
        "policy_kind": kind,
        "params": params,
        "execution_constraints": {"validity_window_sec": 30, **bounds},
        "context_ref": ref,
        "confidence": 0.95,
    }
    return caller.propose(dfid, body).ok()


def verdict_of(answer: Any) -> tuple[str, list[str]]:
    return answer["verdict"], [reason["code"] for reason in answer["reasons"]]


def test_a_small_order_runs_by_itself(caller: api_client.Caller) -> None:
    answer = propose(caller, "ADJUST_POSITION", ORDER)
    assert verdict_of(answer) == ("ACCEPT", [])
    (step,) = canonical.decode(bytes(Intent.objects.get().requests))["steps"]
    assert (step["method"], step["path"], step["target"]) == ("POST", "/orders", "broker")
    assert step["body"] == {**ORDER, "dfid": answer["dfid"], "intent_id": answer["intent_id"]}


def test_an_order_above_the_limit_goes_to_a_person_with_both_numbers(caller: api_client.Caller) -> None:
    answer = propose(caller, "ADJUST_POSITION", {**ORDER, "quantity": 8, "notional_cents": 151600})
    assert verdict_of(answer) == ("ESCALATE", ["RISK_LIMIT_EXCEEDED"])
    assert (answer["reasons"][0]["proposed_value"], answer["reasons"][0]["limit"]) == (151600, 100000)


def test_an_understated_amount_goes_to_a_person(caller: api_client.Caller) -> None:
    answer = propose(caller, "ADJUST_POSITION", {**ORDER, "quantity": 100})
    assert verdict_of(answer) == ("ESCALATE", ["RISK_LIMIT_EXCEEDED", "R_AMOUNT_MATCHES"])
    assert answer["reasons"][0]["proposed_value"] == 1895000  # quantity times live price, not what was stated


def test_the_example_of_the_paper_is_judged_as_it_stands(caller: api_client.Caller) -> None:
    params = {"symbol": "BTC-USD", "action": "REDUCE", "quantity": 0.5}
    bounds = {"max_slippage_bps": 50, "requires_market_state": "OPEN"}
    answer = propose(caller, "ADJUST_POSITION", params, **bounds)
    assert verdict_of(answer) == ("ESCALATE", ["RISK_LIMIT_EXCEEDED"])
    assert answer["reasons"][0]["proposed_value"] == 3250000


def test_a_closed_market_rejects(caller: api_client.Caller) -> None:
    move("market.state", "CLOSED")
    assert verdict_of(propose(caller, "ADJUST_POSITION", ORDER)) == ("REJECT", ["R_MARKET_OPEN"])
    answer = propose(caller, "ADJUST_POSITION", ORDER, requires_market_state="OPEN")
    assert verdict_of(answer)[0] == "REJECT"
    assert "CONSTRAINT_VIOLATED" in verdict_of(answer)[1]


@pytest.mark.parametrize(("price", "verdict"), [(18990, "ACCEPT"), (19100, "REJECT")])
def test_a_price_inside_the_slippage_bound_is_not_stale(
    caller: api_client.Caller, price: int, verdict: str
) -> None:
    answer = propose(caller, "ADJUST_POSITION", ORDER, price, max_slippage_bps=50)
    assert answer["verdict"] == verdict


def test_without_a_slippage_bound_any_move_is_stale(caller: api_client.Caller) -> None:
    assert verdict_of(propose(caller, "ADJUST_POSITION", ORDER, 18951)) == ("REJECT", ["STALE_CONTEXT"])


@pytest.mark.parametrize("symbol", ["price.MSFT", "../market", "AAPL'", "${1}", "AAPL\u202e"])
def test_a_hostile_symbol_is_a_broken_schema(caller: api_client.Caller, symbol: str) -> None:
    answer = propose(caller, "ADJUST_POSITION", {**ORDER, "symbol": symbol})
    assert verdict_of(answer) == ("REJECT", ["INVALID_SCHEMA"])


def test_a_limit_price_is_the_agents_own_bound(caller: api_client.Caller) -> None:
    answer = propose(caller, "ADJUST_POSITION", {**ORDER, "limit_price_cents": 18000})
    assert verdict_of(answer) == ("REJECT", ["CONSTRAINT_VIOLATED"])
    assert propose(caller, "ADJUST_POSITION", {**ORDER, "limit_price_cents": 18950})["verdict"] == "ACCEPT"


def test_a_transfer_always_asks_a_person(caller: api_client.Caller) -> None:
    params = {"amount_cents": 20000, "from_account": "reserve", "to_account": "operations"}
    answer = propose(caller, "TRANSFER_FUNDS", params)
    assert verdict_of(answer) == ("ESCALATE", ["R_PERSON_FOR_TRANSFERS"])
    answer = propose(caller, "TRANSFER_FUNDS", {**params, "amount_cents": 1_000_000})
    assert verdict_of(answer) == (
        "ESCALATE",
        ["RISK_LIMIT_EXCEEDED", "R_PERSON_FOR_TRANSFERS", "TWO_PEOPLE_REQUIRED"],
    )
    impacts = Escalation.objects.order_by("pk").values_list("impact", flat=True)
    assert list(impacts) == ["HIGH_IMPACT", "CRITICAL"]
    answer = propose(caller, "TRANSFER_FUNDS", {**params, "to_account": "reserve"})
    assert answer["verdict"] == "REJECT"
    assert "R_TWO_ACCOUNTS" in verdict_of(answer)[1]


def test_the_watchlist_is_updated_without_a_person(caller: api_client.Caller) -> None:
    answer = propose(caller, "UPDATE_WATCHLIST", {"symbol": "NVDA", "action": "ADD"})
    assert verdict_of(answer) == ("ACCEPT", [])


def test_an_agent_sees_what_it_subscribes_to(caller: api_client.Caller) -> None:
    caller.context(caller.open_flow())
    facts = canonical.decode(bytes(Snapshot.objects.get().body))["facts"]
    assert set(facts) == {"market", "price", "position", "watchlist", "cash"}


def test_the_examples_can_be_loaded_beside_the_demo() -> None:
    """Nobody who tries them there is refused since a name is taken, under a version with other content."""
    root = DEMO.parents[1]
    for pack in (
        *sorted((root / "demo").glob("*.yaml")),
        *sorted((root / "docs" / "examples").glob("*.yaml")),
    ):
        loaded = packs.load(text=pack.read_text(), source=pack.name, activate=True, actor="system")
        assert isinstance(loaded, packs.Loaded), loaded
