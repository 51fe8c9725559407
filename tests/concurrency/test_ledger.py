"""The ledger under real threads and real commits."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from audit import chain, ledger
from audit.events import SystemStopped
from audit.live import hint_relay, hints
from audit.models import LedgerEntry, Payload, StreamHead
from audit.verification import triggers
from audit.verification import verify as verification

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
APPENDERS = 50


def append_once(number: int) -> int:
    """One appender: its own connection and transaction; times run against each other on purpose."""
    try:
        with transaction.atomic():
            head = ledger.append_to(
                tenant="default",
                stream="system",
                actor="system",
                at=AT - timedelta(seconds=number),
                events=[SystemStopped(reason=str(number))],
            )
        return head.seq
    finally:
        connection.close()


def test_fifty_appenders_of_one_new_stream_leave_fifty_consecutive_entries(real_db: str) -> None:
    start = threading.Barrier(10)

    def race(number: int) -> int:
        if number < start.parties:
            start.wait(timeout=60)  # the first ones meet where the stream has no head yet
        return append_once(number)

    with ThreadPoolExecutor(max_workers=10) as pool:
        seqs = sorted(pool.map(race, range(APPENDERS)))
    assert seqs == list(range(1, APPENDERS + 1))
    assert StreamHead.objects.get().seq == APPENDERS
    times = list(LedgerEntry.objects.order_by("seq").values_list("at", flat=True))
    assert times == sorted(times)


def test_appenders_leave_a_ledger_that_verifies(real_db: str, settings: Any) -> None:
    settings.DIR_HEADS = []
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(append_once, range(12)))
    assert verification.verify_database() == verification.Whole(entries=12, streams=1, heads=1, payloads=0)


def test_a_rollback_leaves_nothing_and_tells_nobody(real_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(hints, "hint", lambda **hint: told.append(hint))
    with transaction.atomic():
        ledger.append_to(
            tenant="default", stream="system", actor="system", at=AT, events=[SystemStopped(reason="")]
        )
        ledger.commit_payload(tenant="default", data_class="people", body=b"{}")
        transaction.set_rollback(True)
    assert not LedgerEntry.objects.exists()
    assert not StreamHead.objects.exists()
    assert not Payload.objects.exists()
    assert told == []
    assert append_once(0) == 1
    assert [hint["stream"] for hint in told] == ["system", "escalations"]


def test_a_hint_that_fails_does_not_fail_the_append(real_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("the layer is gone")

    monkeypatch.setattr(hint_relay, "publish", fail)
    assert append_once(0) == 1


@pytest.mark.parametrize("write", ["append", "append_to", "erase_payload"])
def test_nothing_is_written_outside_a_transaction(real_db: str, write: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: ledger.append(
            tenant="default", stream="s", head=ledger.GENESIS, actor="system", at=AT, events=[]
        ),
        "append_to": lambda: ledger.append_to(tenant="default", stream="s", actor="system", at=AT, events=[]),
        "erase_payload": lambda: ledger.erase_payload(
            tenant="default", commitment="", actor="system", at=AT, reason=""
        ),
    }
    with pytest.raises(RuntimeError, match="inside the transaction"):
        calls[write]()


def test_verification_beside_a_writer_is_not_alarmed(real_db: str, settings: Any) -> None:
    settings.DIR_HEADS = []
    append_once(0)
    with ThreadPoolExecutor(max_workers=2) as pool:
        writers = pool.map(append_once, range(1, 40))
        while (found := verification.verify_database()) and LedgerEntry.objects.count() < 40:
            assert isinstance(found, verification.Whole), found
        list(writers)


def test_entries_that_come_while_verifying_are_checked_as_well(
    real_db: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_HEADS = []
    append_once(0)
    verify = chain.verify

    def verify_and_append(rows: Any) -> Any:
        walked = verify(list(rows))
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(append_once, 1).result()
        return walked

    monkeypatch.setattr(chain, "verify", verify_and_append)
    assert verification.verify_database() == verification.Whole(entries=2, streams=1, heads=1, payloads=0)


def test_triggers_come_back_after_a_table_remake(real_db: str) -> None:
    if connection.vendor == "sqlite":
        # What a migration does here to alter a column: the table is made anew and its triggers are lost.
        with connection.schema_editor() as editor:
            editor._remake_table(LedgerEntry)  # type: ignore[attr-defined]
    else:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER audit_entry_no_change ON audit_ledgerentry")
    assert triggers.missing() != []
    call_command("migrate", verbosity=0)
    assert triggers.missing() == []
