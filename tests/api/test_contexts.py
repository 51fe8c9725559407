"""Contexts: frozen, named by their content, and no wider than need-to-know."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from audit import canonical
from audit.models import LedgerEntry
from runtime.contexts.models import Snapshot
from runtime.registry.models import Agent
from runtime.state.services import facts
from tests.support import api_client, factories


def subscribe(*selectors: str) -> None:
    """Give the trader a manifest with subscriptions."""
    factories.change_manifest("trader", subscribes=list(selectors))


def test_freezes_what_the_agent_may_see(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    answer = trader.post(f"/flows/{dfid}/context", {}).ok(201)
    assert set(answer) == {"context_ref", "context", "expires_at"}
    content = answer["context"]
    assert content["snapshot_id"] == answer["context_ref"]
    assert content["facts"] == {"market": {"state": "OPEN"}, "price": {"AAPL": 18950, "MSFT": 41620}}
    assert content["versions"] == {"market.state": 1, "price.AAPL": 1, "price.MSFT": 1}
    assert content["mission"] == "Keep positions near their targets."
    assert (content["memory"], content["artifacts"], content["recent_history"]) == ([], [], [])
    assert content["budget"] == {"attempts_left": 3, "escalation_tokens": 3}
    assert [schema["kind"] for schema in content["schemas"]] == ["ADJUST_POSITION"]
    assert trader.get(f"/flows/{dfid}").ok()["state"] == "ACTIVE"


def test_the_reference_is_the_digest_of_the_content(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    answer = trader.post(f"/flows/{dfid}/context").ok(201)
    content = {name: value for name, value in answer["context"].items() if name != "snapshot_id"}
    assert canonical.digest(canonical.encode(content)) == answer["context_ref"]
    row = Snapshot.objects.get(context_ref=answer["context_ref"])
    assert canonical.decode(bytes(row.body)) == content


def test_the_same_content_has_the_same_name_and_a_new_time(
    trader: api_client.Caller, set_clock: Callable[[datetime], None]
) -> None:
    dfid = trader.open_flow()
    first = trader.post(f"/flows/{dfid}/context").ok(201)
    expires_at = Snapshot.objects.get().expires_at
    set_clock(expires_at - timedelta(minutes=5))
    again = trader.post(f"/flows/{dfid}/context").ok(201)
    assert again["context_ref"] == first["context_ref"]
    assert Snapshot.objects.get().expires_at > expires_at
    kinds = LedgerEntry.objects.filter(stream=dfid).order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["flow:opened", "context:compiled", "flow:moved", "context:compiled"]


def test_a_moved_fact_gives_another_name(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    first = trader.context(dfid)
    facts.write(tenant="default", path="price.AAPL", value=19000, writer="feed:prices", expected_version=None)
    answer = trader.post(f"/flows/{dfid}/context").ok(201)
    assert answer["context_ref"] != first
    assert answer["context"]["versions"]["price.AAPL"] == 2


@pytest.mark.parametrize(
    ("selectors", "paths"),
    [
        (("price.*",), ["price.AAPL", "price.MSFT"]),
        (("price.AAPL", "cash.main"), ["cash.main", "price.AAPL"]),
        (("pric.", "price.AAP"), []),
    ],
)
def test_shows_what_the_manifest_subscribes_to(
    trader: api_client.Caller, selectors: tuple[str, ...], paths: list[str]
) -> None:
    subscribe(*(selector.removesuffix("*") for selector in selectors))
    content = trader.post(f"/flows/{trader.open_flow()}/context").ok(201)["context"]
    assert sorted(content["versions"]) == paths


def test_a_namespace_does_not_take_in_its_neighbours(trader: api_client.Caller) -> None:
    for path in ("price_limits.AAPL", "prices.AAPL"):
        facts.write(tenant="default", path=path, value=1, writer="feed:x", expected_version=None)
    facts.write(tenant="other", path="price.AAPL", value=1, writer="feed:x", expected_version=None)
    facts.write(tenant="other", path="price.SECRET", value=1, writer="feed:x", expected_version=None)
    content = trader.post(f"/flows/{trader.open_flow()}/context").ok(201)["context"]
    assert sorted(content["facts"]) == ["market", "price"]
    assert content["facts"]["price"] == {"AAPL": 18950, "MSFT": 41620}


def test_an_agent_without_a_manifest_sees_nothing(trader: api_client.Caller) -> None:
    Agent.objects.update(active_manifest=None)
    content = trader.post(f"/flows/{trader.open_flow()}/context").ok(201)["context"]
    assert (content["facts"], content["schemas"]) == ({}, [])
    assert content["budget"]["escalation_tokens"] == 0


def test_tells_what_happened_in_the_flow(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal("snapshot_hash_x9823")).ok()
    content = trader.post(f"/flows/{dfid}/context").ok(201)["context"]
    assert [event["event_type"] for event in content["recent_history"]] == ["VALIDATION_FEEDBACK"]
    assert content["budget"]["attempts_left"] == 2


@pytest.mark.parametrize("body", [{"query": "all"}, [], "x"])
def test_takes_no_wishes(trader: api_client.Caller, body: Any) -> None:
    trader.post(f"/flows/{trader.open_flow()}/context", body).problem(422, "INVALID_REQUEST")
