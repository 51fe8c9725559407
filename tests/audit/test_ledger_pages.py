"""What pages read at every hint is found by an index on both databases, however long the tables are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import events, ledger
from audit.events import Kind
from runtime.core import clock
from runtime.flows.queries import activity, calls_in_doubt

pytestmark = pytest.mark.django_db
NOISE = (Kind.FACT_WRITTEN.value,)

READS: dict[str, Callable[[], Any]] = {
    "all": lambda: newest(),
    "all, a later page": lambda: newest(before=1_000_000_000),
    "one kind": lambda: newest(kind=Kind.SYSTEM_STOPPED.value),
    "one stream": lambda: newest(stream="feed:prices"),
    "one kind of one stream": lambda: newest(stream="feed:prices", kind=Kind.SYSTEM_STOPPED.value),
    "calls left in doubt": lambda: calls_in_doubt.list_left(tenant="default", most=100),
    "how many calls were left in doubt": lambda: calls_in_doubt.count_left(tenant="default"),
    "how many calls are contradicted": lambda: calls_in_doubt.count_contradicted(tenant="default"),
    "besides noise": lambda: activity.list_latest_besides(tenant="default", besides=NOISE, size=8),
}


# To walk an index that holds nothing but the rows asked for is a scan to SQLite; and PostgreSQL
# puts rows of one moment in order that an index has found in its order.
FINE = (
    "Index Scan",
    "Incremental Sort",
    "Presorted Key",
    "Sort Key",
    "SCAN runtime_attempt USING INDEX attempt_",
)


def newest(*, before: int | None = None, stream: str = "", kind: str = "") -> Any:
    return activity.list_latest_entries(tenant="default", before=before, stream=stream, kind=kind, size=51)


def write(*, times: int, stream: str = "system", reason: str = "drill") -> None:
    stopped = events.SystemStopped(reason=reason)
    for _ in range(times):
        ledger.append_to(tenant="default", stream=stream, actor="user:1", at=clock.now(), events=[stopped])


@contextmanager
def planned_for_a_long_ledger() -> Iterator[None]:
    """PostgreSQL scans a short table whole, by any plan: ask it what it would do with a long one."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
        yield


@pytest.mark.parametrize("read", READS)
def test_rows_are_found_without_sorting(read: str) -> None:
    write(times=3)
    with CaptureQueriesContext(connection) as captured:
        READS[read]()
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    for query in captured:
        with planned_for_a_long_ledger(), connection.cursor() as cursor:
            cursor.execute(explain + query["sql"])
            plan = " ".join(str(row) for row in cursor.fetchall())
        for found in FINE:
            plan = plan.replace(found, "")
        assert "TEMP B-TREE" not in plan, plan
        assert "Sort" not in plan, plan
        assert "SCAN" not in plan, plan


def test_pages_of_one_stream_follow_each_other_without_a_gap() -> None:
    for _ in range(5):
        write(times=1, stream="system")
        write(times=1, stream="agent:a")
    first = activity.list_latest_entries(tenant="default", before=None, stream="system", kind="", size=2)
    second = activity.list_latest_entries(
        tenant="default", before=first[-1].pk, stream="system", kind="", size=9
    )
    assert [row.seq for row in [*first, *second]] == [5, 4, 3, 2, 1]
    other = activity.list_latest_entries(tenant="default", before=None, stream="agent:a", kind="", size=1)[0]
    assert newest(stream="system", before=other.pk) == [], "a row of another stream is no place in this one"


def test_the_short_list_looks_back_so_far_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "LOOKED_BACK", 3)
    write(times=4)
    assert len(activity.list_latest_besides(tenant="default", besides=NOISE, size=8)) == 3
    assert activity.list_latest_besides(tenant="default", besides=(Kind.SYSTEM_STOPPED,), size=8) == []
    assert activity.list_latest_besides(tenant="nobody", besides=NOISE, size=8) == []
