"""What PostgreSQL plans once it has counted the rows of the ledger.

Each test has a database of its own: what ANALYZE counts stays when its transaction is undone, and other tests
would be planned by it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.events import Kind
from audit.models import Tree
from audit.sealing import sealer
from runtime.flows.queries import recorded_flow
from tests.audit.sealing.test_sealer import append, seal_all
from tests.audit.test_ledger_pages import newest, planned_for_a_long_ledger, write


@pytest.fixture(autouse=True)
def _alone(real_db: str) -> Iterator[None]:
    with transaction.atomic():
        yield


def count_rows() -> None:
    """As autovacuum does; plans of SQLite need no counts."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def plan_of_the_one(captured: CaptureQueriesContext) -> str:
    (query,) = captured
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with planned_for_a_long_ledger(), connection.cursor() as cursor:
        cursor.execute(explain + query["sql"])
        return " ".join(str(row) for row in cursor.fetchall())


def test_a_claim_reads_what_is_about_targets_and_no_other_entry_of_their_stream() -> None:
    write(times=200)
    count_rows()
    with CaptureQueriesContext(connection) as captured:
        recorded_flow.of_flow(tenant="default", dfid="a flow")
    plan = plan_of_the_one(captured)
    assert "entry_recent_of_kind" in plan, plan
    assert "SCAN" not in plan.replace("Index Scan", ""), plan


def test_a_rare_kind_in_a_long_stream_is_found_without_reading_the_stream() -> None:
    write(times=200, stream="feed:prices")
    count_rows()
    with CaptureQueriesContext(connection) as captured:
        newest(stream="feed:prices", kind=Kind.FACT_WRITTEN.value)
    plan = plan_of_the_one(captured)
    assert "entry_kind_in_stream" in plan, plan


@pytest.mark.skipif(
    connection.vendor == "sqlite",
    reason="SQLite does not say how many rows it read; it looks up each by its key in any case",
)
def test_a_batch_reads_no_more_of_the_ledger_than_what_waits() -> None:
    append(count=2_000)
    count_rows()  # those of a busy moment, as they often are in use
    seal_all()
    append("other", count=5)
    assert read_of_the_ledger(sealer._WAITING, sealer.BATCH) == 5
    assert read_of_the_ledger(sealer._LEAVES, Tree.objects.get().size - 4, 3) == 3


def read_of_the_ledger(sql: str, *params: int) -> int:
    """How many of its entries PostgreSQL reads to answer a statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0][0]["Plan"]

    def read(node: dict[str, Any]) -> int:
        own = node["Actual Rows"] * node["Actual Loops"] if node.get("Alias") == "entry" else 0
        return own + sum(read(child) for child in node.get("Plans", []))

    return read(plan)
