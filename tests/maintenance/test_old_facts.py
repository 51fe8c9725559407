"""Old versions of facts: which go, which stay, and what the ledger says of those that went."""

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.chain import BreakKind
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.retention import read_fact_classes
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.flows.services import flows
from runtime.maintenance.models import FactRound
from runtime.maintenance.queries import old_facts
from runtime.maintenance.services import fact_pruning
from runtime.state.models import Fact, FactVersion
from tests.support import factories, retention_story

TENANT = "default"
Later = Callable[[float], None]
pytestmark = pytest.mark.django_db


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """For the rounds it is so many days later."""

    return lambda days: retention_story.later(monkeypatch, days=days, of=fact_pruning)


@pytest.fixture(autouse=True)
def _classes(settings: Settings) -> None:
    settings.DIR_FACT_RETENTION = read_fact_classes(["price.=30", "price.GOLD=0"])


def write(path: str, versions: int) -> None:
    for number in range(versions):
        factories.write(path, {"cents": number})


def kept(path: str) -> list[int]:
    rows = FactVersion.objects.filter(path=path).order_by("version")
    return list(rows.values_list("version", flat=True))


def prune() -> int:
    return fact_pruning.prune_due(tenant=TENANT)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("retention", *arguments, stdout=out)
    return out.getvalue()


def test_what_was_followed_long_enough_ago_goes_and_the_current_version_stays(later: Later) -> None:
    write("price.AAPL", 4)
    write("price.GOLD", 3)
    write("news.AAPL", 3)
    later(29)
    assert prune() == 0
    FactRound.objects.all().delete()
    later(31)
    assert prune() == 3
    assert (kept("price.AAPL"), kept("price.GOLD"), kept("news.AAPL")) == ([4], [1, 2, 3], [1, 2, 3])
    (entry,) = LedgerEntry.objects.filter(kind="facts:pruned")
    assert (entry.stream, entry.actor) == ("system", "system")
    assert entry.payload == {
        "selector": "price.",
        "days": 30,
        "pruned": [{"path": "price.AAPL", "first": 1, "through": 3}],
    }
    assert findings.verify_all().findings == []
    # The next ones go on from there.
    write("price.AAPL", 2)
    FactRound.objects.all().delete()
    assert prune() == 2
    assert kept("price.AAPL") == [6]
    assert findings.verify_all().findings == []


def test_the_time_counts_from_the_next_version(later: Later) -> None:
    write("price.AAPL", 3)
    old = clock.now() - timedelta(days=40)
    FactVersion.objects.filter(version__lte=2).update(written_at=old)
    assert prune() == 1
    assert kept("price.AAPL") == [2, 3]


def test_what_an_open_flow_may_have_seen_stays(later: Later) -> None:
    desk = factories.desk()
    write("price.NEW", 2)
    opened = desk.open()
    write("price.NEW", 2)
    later(31)
    # Those of before: 1 was followed before the flow was opened.
    fact_pruning.prune_due(tenant=TENANT)
    assert kept("price.NEW") == [2, 3, 4]
    flows.cancel(agent=desk.agent, dfid=opened.dfid, reason="no longer wanted")
    FactRound.objects.all().delete()
    fact_pruning.prune_due(tenant=TENANT)
    assert kept("price.NEW") == [4]
    assert findings.verify_all().findings == []


def test_a_round_goes_on_where_it_stopped_and_rests_at_its_end(
    later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("price.A", "price.B", "price.C"):
        write(name, 4)
    later(31)
    monkeypatch.setattr(old_facts, "FACTS_AT_ONCE", 2)
    monkeypatch.setattr(old_facts, "VERSIONS_AT_ONCE", 2)
    monkeypatch.setattr(fact_pruning, "MOST_BATCHES", 1)
    assert [prune() for _ in range(6)] == [4, 2, 2, 1, 0, 0]
    assert FactVersion.objects.count() == Fact.objects.count() == 3
    stored = FactRound.objects.get()
    assert stored.path == ""
    assert stored.next_at - clock.now() > timedelta(days=31)
    write("price.A", 1)
    assert prune() == 0
    later(33)
    assert prune() == 1
    assert findings.verify_all().findings == []


def test_the_command_says_what_it_would_delete_and_deletes_it(
    later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_facts, "FACTS_AT_ONCE", 1)
    monkeypatch.setattr(old_facts, "VERSIONS_AT_ONCE", 2)
    write("price.A", 5)
    write("price.B", 2)
    later(31)
    said = run("--dry-run")
    assert "would delete versions 1 to 2 of price.A: price.=30" in said
    assert "versions of facts: 3 would be deleted" in said
    assert FactVersion.objects.count() == 7
    lines = [json.loads(line) for line in run("--json").splitlines()]
    assert [line["deleted"] for line in lines[:-1]] == [
        {"first": 1, "through": 2},
        {"first": 3, "through": 4},
        {"first": 1, "through": 1},
    ]
    assert lines[-1]["deleted_versions"] == 5
    assert "versions of facts: 0 deleted" in run()
    assert findings.verify_all().findings == []


def test_a_version_that_goes_without_an_entry_or_comes_back_is_found(later: Later) -> None:
    write("price.A", 4)
    row = FactVersion.objects.get(version=2)
    later(31)
    assert prune() == 3
    row.save(force_insert=True)
    found = [(item.fault, item.detail) for item in findings.verify_all().findings]
    assert (BreakKind.ROW_MISMATCH, "version 2 of price.A is there, but was deleted") in found
    row.delete()
    FactVersion.objects.all().delete()
    found = [(item.fault, item.detail) for item in findings.verify_all().findings]
    assert (BreakKind.ROW_MISSING, "version 4 of price.A is missing") in found


def test_where_versions_are_missing_none_is_deleted(
    later: Later, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("price.A", 4)
    write("price.B", 2)
    FactVersion.objects.filter(path="price.A", version=2).delete()
    later(31)
    monkeypatch.setattr(old_facts, "VERSIONS_AT_ONCE", 2)
    assert prune() == 1
    assert (kept("price.A"), kept("price.B")) == ([1, 3, 4], [2])
    assert "versions of price.A are missing, so none is deleted" in caplog.text
    # Nor does the command wait for them without an end.
    assert "versions of facts: 0 deleted" in run()
    assert FactRound.objects.get().path == ""


def test_nothing_is_deleted_without_a_class_or_while_a_restored_backup_waits(
    later: Later, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("price.A", 2)
    later(31)
    with monkeypatch.context() as patch:
        patch.setattr(epochs, "refuse_while_recovering", lambda: epochs.WAITING)
        assert prune() == 0
    settings.DIR_FACT_RETENTION = ()
    assert prune() == 0
    assert "versions of facts: 0 deleted" in run()
    assert FactVersion.objects.count() == 2


def test_a_worker_that_stops_leaves_the_rest(later: Later) -> None:
    write("price.A", 2)
    later(31)
    assert fact_pruning.prune_due(tenant=TENANT, is_stopping=lambda: True) == 0
    assert prune() == 1


def test_facts_with_nothing_due_cost_one_query(later: Later) -> None:
    for number in range(3):
        write(f"price.A{number}", 2)
    with CaptureQueriesContext(connection) as few:
        old_facts.list_old(tenant=TENANT, at=clock.now(), after="")
    for number in range(3, 12):
        write(f"price.A{number}", 2)
    with CaptureQueriesContext(connection) as many:
        old_facts.list_old(tenant=TENANT, at=clock.now(), after="")
    assert len(many) == len(few)
