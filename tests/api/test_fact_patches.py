"""PATCH of a fact, and writes that are sent again under one Idempotency-Key."""

import pytest

from runtime.core.models import Answer
from runtime.state.models import FactVersion, WorldVersion
from tests.support import api_client

PATH, NEW = "/state/facts/price.AAPL", "/state/facts/price.NEW"
KEY = {"Idempotency-Key": "once"}


@pytest.fixture
def feed(desk: None) -> api_client.Caller:
    """A caller with the key of the feed `prices`."""
    return api_client.Caller(api_client.feed_key())


def value(feed: api_client.Caller, path: str = NEW) -> object:
    return feed.get(path).ok()["value"]


def test_merges_into_the_value(feed: api_client.Caller) -> None:
    feed.put(NEW, {"value": {"bid": 1, "ask": 2, "book": {"depth": 3}}})
    sent = {"value": {"bid": None, "last": 9, "book": {"side": "B"}}}
    answer = feed.call("PATCH", NEW, sent, headers={"Content-Type": "application/merge-patch+json"})
    assert answer.ok()["version"] == 2
    assert answer.headers["ETag"] == '"2"'
    assert value(feed) == {"ask": 2, "last": 9, "book": {"depth": 3, "side": "B"}}
    assert feed.call("PATCH", NEW, {"value": 7}).ok()["version"] == 3
    assert value(feed) == 7


def test_patches_only_what_it_has_seen(feed: api_client.Caller) -> None:
    feed.put(NEW, {"value": {"a": 1}})
    assert feed.call("PATCH", NEW, {"value": {"b": 2}}, headers={"If-Match": '"1"'}).ok()["version"] == 2
    lost = feed.call("PATCH", NEW, {"value": {"b": 3}}, headers={"If-Match": '"1"'})
    lost.problem(412, "VERSION_MISMATCH")
    assert value(feed) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (NEW, {"value": {"a": 1}}, 404, "FACT_NOT_FOUND"),
        (PATH, {"a": 1}, 422, "INVALID_REQUEST"),
        (PATH, {"value": "x" * 65_537}, 422, "INVALID_REQUEST"),
        ("/state/facts/cash.main", {"value": 1}, 403, "UNAUTHORIZED"),
        ("/state/facts/nothing", {"value": 1}, 422, "INVALID_REQUEST"),
    ],
)
def test_refuses_what_it_cannot_patch(
    feed: api_client.Caller, path: str, body: object, status: int, code: str
) -> None:
    written = FactVersion.objects.count()
    feed.call("PATCH", path, body).problem(status, code)
    assert FactVersion.objects.count() == written
    api_client.session().call("PATCH", path, body).problem(403, "UNAUTHORIZED")


def test_a_write_sent_again_is_one_version(feed: api_client.Caller) -> None:
    first = feed.put(NEW, {"value": 1}, KEY).ok()
    feed.put(NEW, {"value": 2})
    assert feed.put(NEW, {"value": 1}, KEY).ok() == first
    assert value(feed) == 2
    feed.put(NEW, {"value": 3}, KEY).problem(422, "IDEMPOTENCY_KEY_REUSED")
    feed.call("PATCH", NEW, {"value": 1}, headers=KEY).problem(422, "IDEMPOTENCY_KEY_REUSED")
    patched = feed.call("PATCH", NEW, {"value": 5}, headers={"Idempotency-Key": "other"}).ok()
    again = feed.call("PATCH", NEW, {"value": 5}, headers={"Idempotency-Key": "other", "If-Match": '"2"'})
    assert again.ok() == patched
    # Another fact, and another feed, are another scope.
    assert feed.put("/state/facts/price.OTHER", {"value": 3}, KEY).ok()["version"] == 1
    assert (
        api_client.Caller(api_client.feed_key(feed="second")).put(NEW, {"value": 4}, KEY).ok()["version"] == 4
    )
    assert Answer.objects.exclude(feed_key=None).count() == 4


def test_what_was_refused_may_be_sent_again(feed: api_client.Caller) -> None:
    feed.put(NEW, {"value": 1}, KEY | {"If-Match": '"1"'}).problem(412, "VERSION_MISMATCH")
    assert feed.put(NEW, {"value": 1}, KEY).ok()["version"] == 1
    feed.put(NEW, {"value": 1}, {"Idempotency-Key": "\x7f"}).problem(400, "IDEMPOTENCY_KEY_INVALID")
    assert WorldVersion.objects.filter(writer="feed:prices").count() == 1
