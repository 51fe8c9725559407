"""Who wrote versions of facts: what their entries say, however many are asked about."""

import pytest

from audit import canonical
from audit.models import LedgerEntry
from runtime.state.models import FactVersion
from runtime.verification import fact_writes
from tests.support import factories

pytestmark = pytest.mark.django_db
TENANT = factories.TENANT


def entries() -> dict[tuple[str, int], tuple[str, str]]:
    """What all entries say, by path and version."""
    bodies = [canonical.decode(bytes(row.body)) for row in LedgerEntry.objects.filter(kind="fact:written")]
    return {
        (said["payload"]["path"], said["payload"]["version"]): (said["payload"]["writer"], said["at"])
        for said in bodies
    }


def test_each_version_has_the_writer_and_the_time_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in range(3):
        factories.write("price.AAPL", value)
        factories.write("price.MSFT", value)
    told = entries()
    assert len(told) == 6
    for at_once in (1, 4, 200):
        monkeypatch.setattr(fact_writes, "AT_ONCE", at_once)
        assert fact_writes.list_recorded(TENANT, set(told)) == told
    assert fact_writes.list_recorded(TENANT, {("price.AAPL", 2)}) == {
        ("price.AAPL", 2): told["price.AAPL", 2]
    }


def test_nothing_is_said_of_what_is_gone_of_another_tenant_or_never_was() -> None:
    factories.write("price.AAPL", 1)
    wanted = {("price.AAPL", 1), ("price.AAPL", 2), ("price.NONE", 1)}
    assert list(fact_writes.list_recorded(TENANT, wanted)) == [("price.AAPL", 1)]
    assert fact_writes.list_recorded("other", wanted) == {}
    assert fact_writes.list_recorded(TENANT, set()) == {}
    FactVersion.objects.all().delete()
    assert fact_writes.list_recorded(TENANT, wanted) == {}


@pytest.mark.parametrize("column", ["writer", "digest"])
def test_a_row_that_its_entry_contradicts_says_nothing(column: str) -> None:
    factories.write("price.AAPL", 1)
    FactVersion.objects.update(**{column: "feed:mallory"})
    assert fact_writes.list_recorded(TENANT, {("price.AAPL", 1)}) == {}


def test_more_versions_than_one_expression_holds_are_asked_in_parts() -> None:
    factories.write("price.AAPL", 1)
    wanted = {("price.AAPL", 1), *((f"price.S{number}", 1) for number in range(1200))}
    assert list(fact_writes.list_recorded(TENANT, wanted)) == [("price.AAPL", 1)]
