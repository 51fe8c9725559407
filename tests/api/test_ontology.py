"""The ontology: a pack brings it, an admin activates it, and feeds write what it declares."""

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.maintenance.services import sealing
from runtime.packs.services import packs
from runtime.packs.services.packs import Loaded, PackRefused
from runtime.registry.models.ontologies import Ontology
from runtime.registry.services import ontologies
from runtime.state.models import FactVersion
from tests.support import api_client, factories

PACK = """
pack: words
version: {pack}
{facts}
ontology:
  schema_version: {version}
  facts:
    - {{path: "price.*", schema: {{type: integer, minimum: 0}}, unit: cents, tags: [market, hot],
       source: prices, max_age_s: 60}}
    - {{path: price.NEW, tags: [market],
       schema: {{type: object, required: [bid], properties: {{bid: {schema}}}}}}}
    - {{path: "cash.*", tags: [books]}}
"""
NEW = "/state/facts/price.NEW"


def load(
    *, version: str = "1.0.0", activate: bool = True, facts: str = "", schema: str = "{type: integer}"
) -> Loaded | PackRefused:
    """Load a pack with an ontology."""
    text = PACK.format(pack=version, version=version, facts=facts, schema=schema)
    return packs.load(text=text, source="words.yaml", activate=activate, actor="system")


@pytest.fixture
def feed(desk: None) -> api_client.Caller:
    """A caller with the key of the feed `prices`, under an ontology."""
    assert isinstance(load(), Loaded)
    sealing.seal_now()
    return api_client.Caller(api_client.feed_key())


def test_a_version_is_told_as_far_as_the_caller_may_read(feed: api_client.Caller) -> None:
    told = feed.get("/state/ontology/1.0.0").ok()
    assert (told["schema_version"], told["state"]) == ("1.0.0", "ACTIVE")
    assert told["facts"][0] == {
        "path": "price.*",
        "schema": {"type": "integer", "minimum": 0},
        "unit": "cents",
        "tags": ["market", "hot"],
        "source": "feed:prices",
        "max_age_s": 60,
    }
    assert [fact["path"] for fact in told["facts"]] == ["price.*", "price.NEW"]
    auditor = api_client.Caller(api_client.auditor_key())
    assert len(auditor.get("/state/ontology/1.0.0").ok()["facts"]) == 3
    feed.get("/state/ontology/9.0.0").problem(404, "ONTOLOGY_NOT_FOUND")
    kinds = (
        LedgerEntry.objects.filter(kind__startswith="ontology:").order_by("id").values_list("kind", flat=True)
    )
    assert list(kinds) == ["ontology:registered", "ontology:activated"]


def test_what_is_not_as_declared_is_refused_with_its_path(feed: api_client.Caller) -> None:
    said = feed.put("/state/facts/price.AAPL", {"value": "x"}).problem(422, "FACT_NOT_AS_DECLARED")
    assert said["detail"].startswith("price.AAPL is declared as price.* in 1.0.0")
    said = feed.put(NEW, {"value": {"bid": "x"}}).problem(422, "FACT_NOT_AS_DECLARED")
    assert " at /bid: " in said["detail"]
    assert feed.put(NEW, {"value": {"bid": 1}}).ok()["version"] == 1
    feed.call("PATCH", NEW, {"value": {"bid": None}}).problem(422, "FACT_NOT_AS_DECLARED")
    other = api_client.Caller(api_client.feed_key(feed="rumours"))
    said = other.put("/state/facts/price.AAPL", {"value": 1}).problem(422, "FACT_NOT_AS_DECLARED")
    assert "feed:rumours is another source" in said["detail"]
    assert other.put(NEW, {"value": {"bid": 2}}).ok()["version"] == 2
    assert FactVersion.objects.filter(path="price.AAPL").count() == 1


def test_tags_narrow_the_world(feed: api_client.Caller) -> None:
    feed.put(NEW, {"value": {"bid": 1}})
    sealing.seal_now()
    market = feed.get("/state/world?tags=market")
    assert list(market.ok()["facts"]) == ["price.AAPL", "price.MSFT", "price.NEW"]
    assert list(feed.get("/state/world?tags=market,hot").ok()["facts"]) == ["price.AAPL", "price.MSFT"]
    assert list(feed.get("/state/world?tags=market&after=price.AAPL&prefix=price.M").ok()["facts"]) == [
        "price.MSFT"
    ]
    assert feed.get("/state/world?tags=unknown").ok()["facts"] == {}
    assert market.headers["ETag"] != feed.get("/state/world").headers["ETag"]


def test_a_draft_declares_nothing_until_another_admin_activates_it(desk: None) -> None:
    assert isinstance(load(activate=False), Loaded)
    feed = api_client.Caller(api_client.feed_key())
    assert feed.put("/state/facts/price.AAPL", {"value": "x"}).status == 200
    assert feed.get("/state/world?tags=market").ok()["facts"] == {}
    admin = factories.user("ada", "admin")
    row = ontologies.activate(
        tenant="default", version="1.0.0", seen_active="", reason="Agreed.", actor=f"user:{admin.pk}"
    )
    assert isinstance(row, Ontology), row
    assert row.active
    feed.put("/state/facts/price.AAPL", {"value": "x"}).problem(422, "FACT_NOT_AS_DECLARED")
    assert isinstance(load(version="1.1.0", schema="{type: string}"), Loaded)
    assert feed.put(NEW, {"value": {"bid": "x"}}).ok()["version"] == 1
    assert feed.get("/state/ontology/1.0.0").ok()["state"] == "SUPERSEDED"
    # The test has made the admin itself, without an entry.
    assert [found.stream for found in findings.verify_all().findings] == [f"user:{admin.pk}"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schema": "{type: 7}"}, "ontology.facts"),
        ({"facts": "facts: {price: {GOLD: cheap}}"}, "price.GOLD is declared as price.*"),
    ],
)
def test_a_pack_that_contradicts_itself_is_refused_whole(
    desk: None, fields: dict[str, str], words: str
) -> None:
    refused = load(**fields)  # type: ignore[arg-type]
    assert isinstance(refused, PackRefused)
    assert any(words in problem for problem in refused.problems), refused.problems
    assert not Ontology.objects.exists()


def test_a_version_keeps_its_content(desk: None) -> None:
    assert isinstance(load(), Loaded)
    again = load(schema="{type: string}")
    assert isinstance(again, PackRefused)
    assert "give the change a new version" in again.problems[0]


def test_a_changed_row_is_not_trusted(feed: api_client.Caller) -> None:
    row = Ontology.objects.get()
    body = bytes(row.body).replace(b'"integer"', b'"string"')
    Ontology.objects.filter(pk=row.pk).update(body=body)
    feed.put("/state/facts/price.AAPL", {"value": "x"}).problem(409, "TAMPERED")
    feed.get("/state/ontology/1.0.0").problem(409, "TAMPERED")
    feed.get("/state/world?tags=market").problem(409, "TAMPERED")
    assert findings.verify_all().findings != []
