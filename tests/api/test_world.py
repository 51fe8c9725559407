"""The world at a version of it: what each caller may read, what stays the same, and what is refused."""

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from runtime.contracts.retention import read_fact_classes
from runtime.maintenance.services import fact_pruning, sealing
from runtime.state.models import WorldVersion
from runtime.state.queries import world
from tests.support import api_client, factories, retention_story

PRICE, NEW = "/state/facts/price.AAPL", "/state/facts/price.NEW"
ULID = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"


@pytest.fixture
def feed(desk: None) -> api_client.Caller:
    """A caller with the key of the feed `prices`, after the pack's own facts are numbered."""
    sealing.seal_now()
    return api_client.Caller(api_client.feed_key())


def put(feed: api_client.Caller, path: str, value: object) -> int:
    """Write a fact; the version of the world that it made, once that is numbered."""
    answer = feed.put(path, {"value": value}).ok()
    sealing.seal_now()
    version = WorldVersion.objects.get(write_id=answer["write_id"]).version
    assert version is not None
    return version


def test_a_write_answers_its_id_and_makes_the_next_version(feed: api_client.Caller) -> None:
    first = feed.get("/state/world").ok()
    assert first == {
        "world_version_id": 1,
        "facts": {"price.AAPL": 18950, "price.MSFT": 41620},
        "next": None,
    }
    answer = feed.put(NEW, {"value": {"bid": 3}}).ok()
    assert len(answer["write_id"]) == 26
    assert answer["world_version_id"] == (2 if connection.vendor == "sqlite" else None)
    sealing.seal_now()
    heard = feed.get("/state/world")
    assert heard.ok()["world_version_id"] == 2
    assert heard.headers["ETag"] == '"2"'
    assert feed.get("/state/world", {"If-None-Match": '"2"'}).status == 304
    assert feed.get("/state/world", {"If-None-Match": '"1"'}).status == 200
    entry = LedgerEntry.objects.get(stream="feed:prices", kind="fact:written")
    assert entry.payload["write_id"] == answer["write_id"]


def test_a_version_reads_the_same_whatever_is_written_later(feed: api_client.Caller) -> None:
    served = {}
    for value in (1, 2, 2, [3]):
        version = put(feed, PRICE, value)
        served[version] = feed.get("/state/world").ok()
    assert sorted(served) == [2, 3, 4, 5]
    write_id = WorldVersion.objects.get(version=3).write_id
    assert feed.get(f"/state/world?at_version={write_id}").ok() == served[3]
    for version, seen in served.items():
        assert feed.get(f"/state/world?at_version={version}").ok() == seen
    assert feed.get("/state/world?at_version=1").ok()["facts"]["price.AAPL"] == 18950


def test_narrows_by_prefix_and_goes_on_after_a_path(feed: api_client.Caller) -> None:
    put(feed, NEW, 1)
    assert list(feed.get("/state/world?prefix=price.A").ok()["facts"]) == ["price.AAPL"]
    assert list(feed.get("/state/world?after=price.AAPL").ok()["facts"]) == ["price.MSFT", "price.NEW"]


def test_capitals_and_small_letters_are_not_the_same(feed: api_client.Caller) -> None:
    """Neither in what a key covers nor in what is asked for, on either database."""
    put(feed, "/state/facts/price.EU-A", 1)
    put(feed, "/state/facts/price.eu-b", 2)
    small = api_client.Caller(api_client.feed_key(prefix="price.eu-", feed="europe"))
    assert list(small.get("/state/world").ok()["facts"]) == ["price.eu-b"]
    told = [row["facts"] for row in small.get("/state/versions").ok()["versions"]]
    assert [facts for facts in told if facts] == [{"price.eu-b": 1}]
    assert list(feed.get("/state/world?prefix=price.EU-").ok()["facts"]) == ["price.EU-A"]


def test_a_writer_whose_facts_the_caller_may_not_read_is_not_betrayed(
    feed: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.list_versions, "__kwdefaults__", {"most": 1})
    factories.write("cash.main", 7)
    treasury = api_client.Caller(api_client.feed_key(prefix="cash.", feed="treasury"))
    for value in (1, 2, 3):
        put(treasury, "/state/facts/cash.main", value)
    seen = feed.get("/state/versions?writer=feed:treasury").ok()
    assert (seen["versions"], seen["next"]) == ([], None)
    own = treasury.get("/state/versions?writer=feed:treasury").ok()
    assert len(own["versions"]) == 1
    assert own["next"] is not None


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("at_version=99", 404, "WORLD_VERSION_NOT_FOUND"),
        ("at_version=0", 404, "WORLD_VERSION_NOT_FOUND"),
        ("at_version=01ARZ3NDEKTSV4RRFFQ69G5FAV", 404, "WORLD_VERSION_NOT_FOUND"),
        ("at_version=-1", 422, "INVALID_REQUEST"),
        ("at_version=now", 422, "INVALID_REQUEST"),
        ("prefix=%00", 422, "INVALID_REQUEST"),
        ("prefix=cash.", 403, "UNAUTHORIZED"),
    ],
)
def test_refuses_what_is_not_there(feed: api_client.Caller, query: str, status: int, code: str) -> None:
    feed.get(f"/state/world?{query}").problem(status, code)


def test_versions_are_one_chain_and_tell_who_wrote(feed: api_client.Caller) -> None:
    for value in (1, 2):
        put(feed, PRICE, value)
    factories.write("cash.main", 7)
    other = api_client.Caller(api_client.feed_key(prefix="cash.", feed="treasury"))
    put(other, "/state/facts/cash.main", 8)
    page = feed.get("/state/versions").ok()
    versions = page["versions"]
    assert page["next"] is None
    assert [row["version_id"] for row in versions] == [1, 2, 3, 4, 5]
    assert [row["parent_version_id"] for row in versions] == [None, 1, 2, 3, 4]
    assert versions[1] | {"at": None, "write_id": None} == {
        "version_id": 2,
        "parent_version_id": 1,
        "write_id": None,
        "writer_id": "feed:prices",
        "discipline": "IAE",
        "toolchain": {"dir_console": "0.1.0"},
        "at": None,
        "facts": {"price.AAPL": 2},
    }
    # Another feed's fact: the version is named, and not what it holds nor whose it is.
    assert (versions[4]["writer_id"], versions[4]["facts"]) == (None, {})
    assert [row["version_id"] for row in feed.get("/state/versions?from=2&to=3").ok()["versions"]] == [2, 3]
    mine = feed.get("/state/versions?writer=feed:prices").ok()["versions"]
    assert [row["version_id"] for row in mine] == [2, 3, 4]
    assert feed.get("/state/versions?writer=feed:treasury").ok()["versions"] == []
    auditor = api_client.Caller(api_client.auditor_key())
    assert auditor.get("/state/versions?from=5").ok()["versions"][0]["writer_id"] == "feed:treasury"
    assert auditor.get("/state/world").ok()["facts"]["cash.main"] == 8


def test_pages_of_versions_follow_each_other(
    feed: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in range(3):
        put(feed, PRICE, value)
    monkeypatch.setattr("runtime.state.queries.world.list_versions.__kwdefaults__", {"most": 2})
    first = feed.get("/state/versions").ok()
    rest = feed.get(f"/state/versions?from={first['next']}").ok()
    assert [row["version_id"] for row in (*first["versions"], *rest["versions"])] == [1, 2, 3, 4]
    assert (first["next"], rest["next"]) == (3, None)


def test_an_agent_reads_what_its_manifest_subscribes_to(feed: api_client.Caller) -> None:
    put(feed, NEW, 5)
    agent = api_client.session()
    heard = agent.get("/state/world")
    facts = heard.ok()["facts"]
    assert facts["price.NEW"] == 5
    assert "cash.main" not in facts
    assert agent.get("/state/world", {"If-None-Match": heard.headers["ETag"]}).status == 304
    # A key sees another part of the same version: its tag is not the agent's.
    assert heard.headers["ETag"] != feed.get("/state/world").headers["ETag"]
    assert agent.get(NEW).ok()["value"] == 5
    agent.get("/state/facts/cash.main").problem(404, "FACT_NOT_FOUND")
    agent.get("/state/world?prefix=cash.").problem(404, "FACT_NOT_FOUND")
    assert agent.get("/state/versions?from=2").ok()["versions"][0]["writer_id"] == "feed:prices"
    agent.put(NEW, {"value": 6}).problem(403, "UNAUTHORIZED")
    api_client.Caller(api_client.agent_key()).get("/state/world").problem(403, "UNAUTHORIZED")
    api_client.Caller().get("/state/world").problem(401, "UNAUTHENTICATED")


def test_a_version_whose_facts_are_not_kept_is_not_told_by_halves(
    feed: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    for value in (1, 2):
        put(feed, PRICE, value)
    before = feed.get("/state/world?at_version=3").ok()
    settings.DIR_FACT_RETENTION = read_fact_classes(["price.=30"])
    retention_story.later(monkeypatch, of=fact_pruning)
    assert fact_pruning.prune_due(tenant="default") == 2
    for version in (1, 2):
        feed.get(f"/state/world?at_version={version}").problem(410, "WORLD_VERSION_NOT_KEPT")
    assert feed.get("/state/world?at_version=1&prefix=price.M").ok()["facts"] == {"price.MSFT": 41620}
    assert feed.get("/state/world?at_version=3").ok() == before
