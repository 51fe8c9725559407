"""Several workers delete old versions of facts beside feeds that write new ones, under real threads."""

from functools import partial

import pytest
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.retention import read_fact_classes
from runtime.maintenance.services import fact_pruning
from runtime.state.models import FactVersion
from tests.support import factories, racing, retention_story

WORKERS, FACTS, VERSIONS = 4, 3, 5


def test_each_version_is_deleted_once_and_feeds_go_on(
    real_db: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_FACT_RETENTION = read_fact_classes(["*=30"])
    for number in range(FACTS):
        for version in range(VERSIONS):
            factories.write(f"price.A{number}", version)
    retention_story.later(monkeypatch, of=fact_pruning)

    def work(number: int) -> int:
        if number < WORKERS:
            return fact_pruning.prune_due(tenant="default")
        racing.patiently(partial(factories.write, f"price.A{number - WORKERS}", "new"))
        return 0

    racing.race(WORKERS + FACTS, work)
    gone = [
        (fact["path"], version)
        for entry in LedgerEntry.objects.filter(kind="facts:pruned")
        for fact in entry.payload["pruned"]
        for version in range(fact["first"], fact["through"] + 1)
    ]
    assert len(gone) == len(set(gone)) >= FACTS * (VERSIONS - 1)
    assert FactVersion.objects.count() == FACTS * (VERSIONS + 1) - len(gone)
    assert findings.verify_all().findings == []
