"""The world at a version beside now, a fact's history and who reads it, and the ontology."""

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from runtime.contracts.retention import read_fact_classes
from runtime.flows.models import Verdict
from runtime.maintenance.services import fact_pruning, sealing
from runtime.state.models import FactVersion, WorldVersion
from tests.support import api_client, factories, ontology_story, retention_story
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    """An operator, after some facts have changed."""
    api_client.load_pack()
    factories.write("price.AAPL", 19_000)
    factories.write("price.MSFT", 41_620)
    factories.write("price.NEW", {"bid": 1})
    sealing.seal_now()
    return sign_in(Role.OPERATOR)


def test_a_version_is_shown_beside_now_with_what_differs(client: Client) -> None:
    page = text_of(client, "/world/?at=1&prefix=price.")
    assert "Version 1 beside version 4" in page
    assert page.count("changed</span>") == 1  # price.AAPL
    assert page.count("not there yet") == 1  # price.NEW
    assert page.count("same value") == 1  # price.MSFT was written again
    assert "18950" in page
    assert "cash.main" not in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "Version 4"),
        ("?at=99", "There is no version 99 of the world. The newest one is 4."),
        ("?at=x", "A version is a whole number"),
        ("?at=2000-01-01", "There is no version"),
        ("?at=2999-12-31T23:59", "Version 4 beside version 4"),
        ("?prefix=none", "No fact here"),
    ],
)
def test_what_cannot_be_compared_is_said(client: Client, query: str, words: str) -> None:
    assert words in text_of(client, f"/world/{query}")


def test_a_version_that_is_not_kept_is_said(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_FACT_RETENTION = read_fact_classes(["price.=30"])
    retention_story.later(monkeypatch, of=fact_pruning)
    assert fact_pruning.prune_due(tenant="default") == 2
    assert "Version 1 cannot be shown" in text_of(client, "/world/?at=1")
    assert "versions before 2 were deleted" in text_of(client, "/world/facts/price.AAPL/")


def test_a_fact_tells_its_versions_and_who_reads_it(client: Client) -> None:
    trader = api_client.session()
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal(trader.context(dfid), human_review_required=True)).ok()
    ontology_story.write()
    factories.write("words.count", 7)
    page = text_of(client, "/world/facts/price.AAPL/")
    assert "feed prices" in page
    assert f"/world/?at={WorldVersion.objects.get(writer='feed:prices', version=2).version}" in page
    assert f"/agents/{api_client.TRADER}/" in page
    assert f"/kinds/{api_client.KIND}/" in page
    assert dfid in page
    assert "shows version 2" in page
    assert "judged at version 2" in page
    assert "changed since" not in page
    factories.write("price.AAPL", 19_001)
    assert "judged at version 2, changed since" in text_of(client, "/world/facts/price.AAPL/")
    # A verdict that is not what was recorded is not one that stands on the fact.
    stored = Verdict.objects.get()
    Verdict.objects.update(input=bytes(stored.input).replace(b"AAPL", b"AAPL "))
    assert "judged at" not in text_of(client, "/world/facts/price.AAPL/")
    assert "No open flow has seen it" in text_of(client, "/world/facts/words.count/")
    assert "at most 60 s old" in text_of(client, "/world/facts/words.count/")
    assert client.get("/world/facts/no.thing/").status_code == 404


def test_a_changed_value_is_not_shown(client: Client) -> None:
    FactVersion.objects.filter(path="price.NEW").update(value=b'{"forged":1}')
    for path in ("/world/", "/world/facts/price.NEW/"):
        page = text_of(client, path)
        assert "Does not match the ledger" in page
        assert "forged" not in page


def test_the_ontology_is_activated_by_an_admin(client: Client) -> None:
    assert "Nothing is declared of facts" in text_of(client, "/world/ontology/")
    ontology_story.write()
    page = text_of(client, "/world/ontology/")
    assert "words.*" in page
    assert "Only an admin can activate" in text_of(client, "/world/ontology/?version=2.0.0")
    admin = sign_in(Role.ADMIN, name="ada")
    sent = {"reason": "Agreed.", "seen_active": "1.1.0"}
    assert admin.post("/world/ontology/2.0.0/activate/", sent).status_code == 302
    assert "2.0.0" in text_of(client, "/world/ontology/")
    assert client.post("/world/ontology/1.1.0/activate/", sent).status_code == 403
    assert admin.post("/world/ontology/1.0.0/discard/", sent).status_code == 409
    assert client.get("/world/ontology/?version=9").status_code == 404
