"""`state:changed`: what changed of the facts that a reader may read, and who has to read the world again."""

from typing import Any

import pytest

from runtime.maintenance.services import sealing
from runtime.state.queries import changes
from tests.support import api_client, factories

Caller = api_client.Caller


@pytest.fixture
def feed(desk: None) -> Caller:
    """A caller with the key of the feed `prices`, after the pack's own facts are numbered."""
    sealing.seal_now()
    return Caller(api_client.feed_key())


def put(feed: Caller, path: str, value: Any) -> None:
    """Write a fact, and number it."""
    feed.put(f"/state/facts/{path}", {"value": value}).ok()
    sealing.seal_now()


def test_each_version_in_sight_is_an_event(feed: Caller, trader: Caller) -> None:
    put(feed, "price.AAPL", 1)
    put(feed, "price.NEW", 2)
    seen = trader.get("/state/changes?after=1").ok()
    assert [(event["event_type"], event["world_version_id"], event["facts"]) for event in seen["events"]] == [
        ("state:changed", 2, {"price.AAPL": 2}),
        ("state:changed", 3, {"price.NEW": 1}),
    ]
    assert {event["writer_id"] for event in seen["events"]} == {"feed:prices"}
    assert (seen["next"], seen["resync"]) == (3, False)
    assert trader.get("/state/changes?after=3").ok() == {"events": [], "next": 3, "resync": False}


def test_what_is_out_of_sight_leaves_no_trace(feed: Caller, trader: Caller) -> None:
    other = Caller(api_client.feed_key(prefix="cash.", feed="bank"))
    put(other, "cash.main", 1)
    put(feed, "price.AAPL", 1)
    seen = trader.get("/state/changes?after=1")
    assert "cash" not in seen.content.decode()
    assert "bank" not in seen.content.decode()
    assert [event["world_version_id"] for event in seen.ok()["events"]] == [3]
    assert [event["world_version_id"] for event in other.get("/state/changes?after=1").ok()["events"]] == [2]
    auditor = Caller(api_client.auditor_key())
    assert [event["world_version_id"] for event in auditor.get("/state/changes?after=1").ok()["events"]] == [
        2,
        3,
    ]
    # From the day on that the manifest names others, these are told.
    factories.change_manifest("trader", subscribes=["cash."])
    assert [event["facts"] for event in trader.get("/state/changes?after=1").ok()["events"]] == [
        {"cash.main": 2}
    ]


def test_a_long_way_is_told_in_pages(feed: Caller, trader: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_EVENTS", 2)
    for value in range(3):
        put(feed, "price.AAPL", value)
    first = trader.get("/state/changes?after=1").ok()
    assert ([event["world_version_id"] for event in first["events"]], first["next"]) == ([2, 3], 3)
    rest = trader.get("/state/changes?after=3").ok()
    assert ([event["world_version_id"] for event in rest["events"]], rest["next"]) == ([4], 4)


def test_who_is_too_far_behind_starts_again(
    feed: Caller, trader: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_BEHIND", 2)
    for value in range(3):
        put(feed, "price.AAPL", value)
    assert trader.get("/state/changes?after=1").ok() == {"events": [], "next": 4, "resync": True}
    world = trader.get("/state/world?at_version=4").ok()
    assert world["facts"]["price.AAPL"] == 2
    assert trader.get("/state/changes?after=4").ok() == {"events": [], "next": 4, "resync": False}
    assert trader.get("/state/changes?after=2").ok()["next"] == 4
    # Of a life of the database that a restore ended.
    assert trader.get("/state/changes?after=9").ok() == {"events": [], "next": 4, "resync": True}
