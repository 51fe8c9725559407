"""Searches of records: what was changed in the database is not shown, and indexes find the rest."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from audit.records import periods, queries
from audit.records.queries import RecordFilter
from audit.records.statuses import Status
from tests.support import finished_history, ledger_tampering, record_tampering, worlds
from tests.support.finished_history import History

history = worlds.opened(finished_history.opened)
# What a row does not tell beside its entry; `verify_ledger` finds all of it.
NOT_IN_THE_ROW = {
    "record: previous hash",
    "record: all gone",
    "record: the last one gone",
    "record: another approver in record, entry, chain and head",
    "record: no approval in record, entry, chain and head",
}


@pytest.fixture
def undone(history: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


def search(**wanted: Any) -> queries.Found:
    return queries.search(tenant="default", wanted=RecordFilter(**wanted))


def test_every_record_of_a_finished_history_is_shown(undone: History) -> None:
    found = search()
    assert len(found.records) == DecisionRecord.objects.count() > 10
    assert found.others == []
    assert {record.document["status"] for record in found.records} == set(Status)


@pytest.mark.parametrize(
    "name",
    [name for name in record_tampering.CASES if name.startswith("record") and name not in NOT_IN_THE_ROW],
)
def test_a_record_that_was_changed_is_named_and_not_shown(undone: History, name: str) -> None:
    before = {record.record_id: record.body for record in search().records}
    try:
        with transaction.atomic():
            record_tampering.CASES[name](undone)
    except DatabaseError:
        assert (connection.vendor, name) == ("postgresql", "record: body of another type")
        return
    found = search()
    (other,) = found.others
    expected = {queries.DIFFERENT, queries.NOT_EMITTED}
    assert other.mismatch in expected
    assert not other.is_erased
    assert all(before[record.record_id] == record.body for record in found.records)
    assert len(found.rows) == DecisionRecord.objects.count()


def rewrite(row: DecisionRecord, **columns: Any) -> None:
    changes = ", ".join(f"{name} = %s" for name in columns)
    sql = f"UPDATE audit_decisionrecord SET {changes} WHERE id = %s"  # noqa: S608
    ledger_tampering.quietly(sql, [*columns.values(), row.pk])


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["audit"].update(note="Agreed."),
        lambda record: record["audit"].update(signed_by="0" * 16),
        lambda record: record["audit"].update(record_hash="0" * 64),
        lambda record: record["audit"].pop("prev_hash"),
        lambda record: record.update(audit=[]),
        lambda record: record["flow"].pop("to_seq"),
        lambda record: record.update(flow=None),
        lambda record: record.update(subject_ids=7),
    ],
)
def test_what_the_hash_leaves_out_is_compared_too(undone: History, change: Any) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden).order_by("pk")[0]
    record = canonical.decode(bytes(row.body))
    change(record)
    rewrite(row, body=canonical.encode(record))
    found = queries.get(tenant="default", record_id=row.record_id)
    assert found == queries.OtherRecord(pk=row.pk, record_id=row.record_id, mismatch=queries.DIFFERENT)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"7", b'"x"', b"{}", b"{", b'{"flow":{"dfid":1}}'])
def test_bytes_that_are_no_record_are_none(undone: History, body: bytes) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden)[0]
    rewrite(row, body=body)
    assert [other.record_id for other in search().others] == [row.record_id]


def test_other_bytes_of_the_same_record_are_no_record(undone: History) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden)[0]
    rewrite(row, body=bytes(row.body).replace(b":", b": ", 1))
    assert [other.mismatch for other in search().others] == [queries.DIFFERENT]


def test_a_record_put_under_another_flow_is_not_one_of_it(undone: History) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden).order_by("pk")[1]
    rewrite(row, dfid=undone.accepted.hex if connection.vendor == "sqlite" else undone.accepted)
    found = queries.list_of_flow(tenant="default", dfid=undone.accepted)
    assert found is not None
    assert [other.record_id for other in found.others] == [row.record_id]
    left = queries.list_of_flow(tenant="default", dfid=undone.overridden)
    assert left is not None
    assert [(other.record_id, other.mismatch) for other in left.others] == [(row.record_id, queries.GONE)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases take no other type")
@pytest.mark.parametrize(
    ("column", "value"),
    [("dfid", "x"), ("dfid", 7), ("at", "never"), ("seq", "x"), ("record_id", b"\xff"), ("status", b"x")],
)
def test_a_cell_of_another_type_keeps_no_other_record_from_being_read(
    undone: History, column: str, value: Any
) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden)[0]
    rewrite(row, **{column: value})
    found = search()
    assert len(found.rows) == len(search().records) + (column != "at")


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(kind="flow:opened"),
        lambda said: said.update(stream="system"),
        lambda said: said["payload"].pop("record_hash"),
        lambda said: said["payload"].update(record_id="dr_1"),
    ],
)
def test_an_entry_whose_bytes_say_something_else_is_none(undone: History, change: Any) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden)[0]
    entry = LedgerEntry.objects.get(stream=str(row.dfid), seq=row.seq + 1)
    said = canonical.decode(bytes(entry.body))
    change(said)
    sql = "UPDATE audit_ledgerentry SET body = %s WHERE id = %s"
    ledger_tampering.quietly(sql, [canonical.encode(said), entry.pk])
    assert [other.mismatch for other in search(dfid=row.dfid).others] == [queries.NOT_EMITTED]


def test_a_second_entry_about_a_record_changes_nothing(undone: History) -> None:
    row = DecisionRecord.objects.filter(dfid=undone.overridden)[0]
    entry = LedgerEntry.objects.get(stream=str(row.dfid), seq=row.seq + 1)
    said = canonical.decode(bytes(entry.body))
    said |= {"seq": 999, "payload": {**said["payload"], "record_hash": "0" * 64}}
    entry.pk, entry.seq, entry.body = None, 999, canonical.encode(said)
    entry.save(force_insert=True)
    assert search(dfid=row.dfid).others == []


EVERYTHING = RecordFilter(
    dfid=UUID(int=7),
    decision_key="BUY",
    status="DECIDED",
    agent_id="trader",
    approval_mode="none",
    trace_id="0" * 32,
    subject="order:1",
    approver="user:1",
    policy_decision="allow",
    scorecard="failed",
    failed_evaluator="policy",
    since=datetime(1970, 1, 2, tzinfo=UTC),
    until=datetime(2100, 1, 1, tzinfo=UTC),
)
BY_INDEX = {
    "dfid": "record_by_flow",
    "decision_key": "record_by_decision",
    "status": "record_by_status",
    "agent_id": "record_by_agent",
    "approval_mode": "record_by_mode",
    "trace_id": "record_by_trace",
    "subject": "term_by_value",
    "approver": "term_by_value",
    "policy_decision": "term_by_value",
    "scorecard": "term_by_value",
    "failed_evaluator": "term_by_value",
    "since": "record_by_time",
    "until": "record_by_time",
}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL plans by how many rows it has counted")
@pytest.mark.parametrize("name", [*BY_INDEX, ""])
def test_each_filter_is_answered_by_its_index_without_sorting(undone: History, name: str) -> None:
    """Of many years too: what matches is not read before it is put in order."""
    wanted = RecordFilter(**{name: getattr(EVERYTHING, name)}) if name else RecordFilter()
    with CaptureQueriesContext(connection) as captured:
        queries.search(tenant="default", wanted=wanted, after=1_000_000)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {captured[0]['sql']}")
        plan = " ".join(str(row) for row in cursor.fetchall())
    assert BY_INDEX.get(name, "record_recent") in plan, plan
    assert "TEMP B-TREE" not in plan, plan
    assert "SCAN" not in plan, plan


@pytest.mark.parametrize(
    "wanted", [RecordFilter(since=EVERYTHING.since), RecordFilter(until=EVERYTHING.until)]
)
def test_those_of_a_time_come_in_the_order_of_time_page_by_page(
    undone: History, wanted: RecordFilter
) -> None:
    """Records of one moment are in the order of their numbers; none comes twice, and none is left out."""
    numbers = list(DecisionRecord.objects.order_by("pk").values_list("pk", flat=True))
    assert len(numbers) > 4
    moments = [datetime(2026, 11, 1, hour, tzinfo=UTC) for hour in (3, 1, 1, *[2] * (len(numbers) - 3))]
    for number, at in zip(numbers, moments, strict=True):
        rewrite(DecisionRecord.objects.get(pk=number), at=at)
    expected = [pk for _, pk in sorted(zip(moments, numbers, strict=True), reverse=True)]
    wanted, after = replace(wanted, superseded=queries.Superseded.SHOWN), None
    got: list[int] = []
    while len(got) <= len(numbers):
        found = queries.search(tenant="default", wanted=wanted, after=after, size=2)
        got += [row.pk for row in found.rows]
        after = found.following
        if after is None:
            break
    assert got == expected
    assert queries.search(tenant="default", wanted=wanted, after=max(numbers) + 1).rows == []


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-23", datetime(2026, 11, 23, tzinfo=UTC)),
        (" 2026-11-23T14:05 ", datetime(2026, 11, 23, 14, 5, tzinfo=UTC)),
        ("2026-11-23 14:05:06", datetime(2026, 11, 23, 14, 5, 6, tzinfo=UTC)),
        ("2026-11-23t14:05:06.25z", datetime(2026, 11, 23, 14, 5, 6, 250_000, tzinfo=UTC)),
        ("2026-11-23T14:05:06+02:00", datetime(2026, 11, 23, 12, 5, 6, tzinfo=UTC)),
        ("2026-11-23T14:05:06 02:00", datetime(2026, 11, 23, 12, 5, 6, tzinfo=UTC)),
        ("0001-01-01T00:00:00+23:59", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59-23:59", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_reads_times_and_dates(text: str, at: datetime) -> None:
    assert periods.moment(text) == at


@pytest.mark.parametrize(
    "text", ["", "now", "2026", "20261123", "2026-13-01", "2026-11-23T25:00", "2026-W01-1"]
)
def test_reads_nothing_else_as_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        periods.moment(text)


def test_an_unknown_flow_has_no_list(undone: History) -> None:
    assert queries.list_of_flow(tenant="default", dfid=UUID(int=7)) is None
    assert queries.list_of_flow(tenant="other", dfid=undone.accepted) is None
