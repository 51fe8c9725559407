"""State feeds: versions, entity tags, and nothing outside the prefix."""

from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.state.models import Fact, FactVersion
from tests.support import api_client

PATH = "/state/facts/price.AAPL"


@pytest.fixture
def feed(desk: None) -> api_client.Caller:
    """A caller with the key of the feed `prices`."""
    return api_client.Caller(api_client.feed_key())


@pytest.mark.parametrize("value", [1, 0.5, -7, "x", None, True, [], {}, {"bid": [1, {"a": None}]}])
def test_writes_and_reads_any_json(feed: api_client.Caller, value: Any) -> None:
    written = feed.put("/state/facts/price.NEW", {"value": value}).ok()
    assert (written["path"], written["version"], written["etag"]) == ("price.NEW", 1, '"1"')
    read = feed.get("/state/facts/price.NEW")
    assert read.ok() == {"path": "price.NEW", "version": 1, "etag": '"1"', "value": value}
    assert read.headers["ETag"] == '"1"'


def test_every_write_is_a_version_that_stays(feed: api_client.Caller) -> None:
    for value in (19000, 19000, 19100):
        answer = feed.put(PATH, {"value": value})
    assert answer.ok()["version"] == 4
    assert answer.headers["ETag"] == '"4"'
    values = [feed.get(f"{PATH}?at_version={version}").ok()["value"] for version in (1, 2, 3, 4)]
    assert values == [18950, 19000, 19000, 19100]
    assert Fact.objects.get(path="price.AAPL").version == 4
    assert FactVersion.objects.filter(path="price.AAPL").count() == 4
    entries = LedgerEntry.objects.filter(stream="feed:prices", kind="fact:written").order_by("seq")
    assert [entry.payload["version"] for entry in entries] == [2, 3, 4]
    assert {entry.actor for entry in entries} == {"feed:prices"}


def test_writes_only_what_it_has_seen(feed: api_client.Caller) -> None:
    etag = feed.get(PATH).ok()["etag"]
    assert feed.put(PATH, {"value": 1}, {"If-Match": etag}).ok()["version"] == 2
    feed.put(PATH, {"value": 2}, {"If-Match": etag}).problem(412, "VERSION_MISMATCH")
    assert feed.get(PATH).ok()["value"] == 1


@pytest.mark.parametrize(
    ("if_match", "status"),
    [
        ('"1"', 200),
        ("1", 200),
        ('"7", "1"', 200),
        ("*", 200),
        ('"0"', 412),
        ('"2"', 412),
        ('W/"1"', 412),
        ('"x"', 412),
        ("", 412),
        ('"7", "8"', 412),
        ('"' + "9" * 400 + '"', 412),
    ],
)
def test_reads_if_match_as_http_has_it(feed: api_client.Caller, if_match: str, status: int) -> None:
    assert feed.put(PATH, {"value": 1}, {"If-Match": if_match}).status == status


@pytest.mark.parametrize("if_match", ['"1"', "*", '"0"', "0"])
def test_a_fact_that_is_not_there_matches_nothing(feed: api_client.Caller, if_match: str) -> None:
    answer = feed.put("/state/facts/price.NEW", {"value": 1}, {"If-Match": if_match})
    answer.problem(412, "VERSION_MISMATCH")
    feed.get("/state/facts/price.NEW").problem(404, "FACT_NOT_FOUND")


def test_says_nothing_twice_to_who_has_it(feed: api_client.Caller) -> None:
    assert feed.get(PATH, {"If-None-Match": '"1"'}).status == 304


@pytest.mark.parametrize("query", ["at_version=2", "at_version=9007199254740991"])
def test_a_version_that_was_never_written_is_not_found(feed: api_client.Caller, query: str) -> None:
    feed.get(f"{PATH}?{query}").problem(404, "FACT_NOT_FOUND")


@pytest.mark.parametrize(
    "query", ["at_version=0", "at_version=-1", "at_version=x", "at_version=9007199254740992"]
)
def test_a_version_of_another_form_is_refused(feed: api_client.Caller, query: str) -> None:
    feed.get(f"{PATH}?{query}").problem(422, "INVALID_REQUEST")


@pytest.mark.parametrize("path", ["market.state", "prices.AAPL", "cash.main"])
def test_reaches_nothing_outside_its_prefix(feed: api_client.Caller, path: str) -> None:
    feed.put(f"/state/facts/{path}", {"value": 1}).problem(403, "UNAUTHORIZED")
    feed.get(f"/state/facts/{path}").problem(403, "UNAUTHORIZED")
    refused = LedgerEntry.objects.filter(kind="request:refused")
    assert {row.stream for row in refused} == {"feed:prices"}


@pytest.mark.parametrize(
    "path",
    [
        "price",
        "price.",
        ".AAPL",
        "price.A.B",
        "Price.A",
        "price.A%20B",
        "price.%C3%A9",
        "price.A%0A",
        "price." + "A" * 195,
    ],
)
def test_a_path_of_another_form_is_refused(feed: api_client.Caller, path: str) -> None:
    feed.put(f"/state/facts/{path}", {"value": 1}).problem(422, "INVALID_REQUEST")


def test_no_address_holds_a_nul(feed: api_client.Caller) -> None:
    feed.put("/state/facts/price.A%00", {"value": 1}).problem(404, "NOT_FOUND")


def test_takes_long_and_odd_names_within_bounds(feed: api_client.Caller) -> None:
    for path in ("price." + "A" * 194, "price.BTC-USD", "price.a:b_c-1"):
        assert feed.put(f"/state/facts/{path}", {"value": 1}).ok()["path"] == path


def test_refuses_a_value_that_is_too_large(feed: api_client.Caller) -> None:
    feed.put(PATH, {"value": "x" * 65_534}).ok()
    feed.put(PATH, {"value": "x" * 65_535}).problem(422, "INVALID_REQUEST")


@pytest.mark.parametrize("body", [{}, {"value": 1, "version": 2}, [], 5])
def test_takes_a_value_and_nothing_else(feed: api_client.Caller, body: Any) -> None:
    feed.put(PATH, body).problem(422, "INVALID_REQUEST")


def test_a_narrow_prefix_is_kept(desk: None) -> None:
    feed = api_client.Caller(api_client.feed_key(prefix="price.AA"))
    feed.put("/state/facts/price.AAPL", {"value": 1}).ok()
    feed.put("/state/facts/price.MSFT", {"value": 1}).problem(403, "UNAUTHORIZED")
