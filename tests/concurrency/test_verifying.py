"""verify_ledger beside a server that never rests: what is written meanwhile is no finding, ever."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from audit import ledger
from audit.access.roles import Role
from audit.models import LedgerEntry, Payload
from audit.verification import entry_walk, findings, row_checks
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.registry.services import agents, users
from tests.support import factories, gate_cases

STEP_S = 30


def elsewhere(work: Callable[[], Any]) -> None:
    """Do it on another connection, and commit, while this one reads."""

    def done() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(done).result()


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    desk = factories.desk()
    desk.escalate()
    factories.write("price.AAPL", 19_000)
    return desk


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings]


def test_what_is_written_while_entries_are_read_is_no_finding(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal, a fact, a status, a person and an erasure."""
    real = entry_walk.rows
    said = LedgerEntry.objects.filter(kind="proposal:submitted").latest("id").payload
    later: list[factories.Opened] = []

    def erase() -> None:
        assert ledger.erase_payload(
            tenant="default",
            commitment=said["params_commitment"],
            actor="user:1",
            at=clock.now(),
            reason="asked for",
        )

    def writes() -> None:
        factories.write("price.AAPL", 20_000)
        agents.set_status(
            tenant="default", agent_id="trader", status=AgentStatus.ACTIVE, reason="again", actor="user:1"
        )
        added = users.add(
            tenant="default", name="late", password="a long phrase", roles=[Role.AUDITOR], actor="x"
        )
        assert not isinstance(added, Problem), added
        desk.propose(desk.open(), params=gate_cases.PARAMS)
        with transaction.atomic():
            erase()

    def rows_and_writes_in_between(span: entry_walk.Span) -> Iterator[Any]:
        rows = real(span)
        yield next(rows)
        elsewhere(writes)
        yield from rows
        elsewhere(lambda: later.append(desk.open()))

    monkeypatch.setattr(entry_walk, "rows", rows_and_writes_in_between)
    assert found() == []
    assert later
    assert Payload.objects.filter(commitment=said["params_commitment"]).values_list("content").get() == (
        None,
    )
    monkeypatch.undo()
    assert found() == []


def test_a_feed_that_writes_during_every_comparison_is_no_finding(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = row_checks.Found.same
    price = 20_000

    def write() -> None:
        nonlocal price
        price += 1
        factories.write("price.AAPL", price)

    def same(self: Any, entry: row_checks.Entry, what: str, *values: object) -> None:
        if what in {"agent.role", "fact.version"}:
            elsewhere(write)
        real(self, entry, what, *values)

    monkeypatch.setattr(row_checks.Found, "same", same)
    assert found() == []
    assert price > 20_001


def test_what_commits_late_is_no_finding(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry has an older number than others that were there before."""
    real = entry_walk.rows
    written, go_on = threading.Event(), threading.Event()

    def write_and_wait() -> None:
        try:
            with transaction.atomic():
                factories.write("price.AAPL", 21_000)
                written.set()
                assert go_on.wait(STEP_S)
        finally:
            connection.close()

    def rows_and_a_commit(span: entry_walk.Span) -> Iterator[Any]:
        yield from real(span)
        go_on.set()
        late.result()

    monkeypatch.setattr(entry_walk, "rows", rows_and_a_commit)
    with ThreadPoolExecutor(max_workers=1) as pool:
        late = pool.submit(write_and_wait)
        try:
            assert written.wait(STEP_S)
            if connection.vendor == "postgresql":  # SQLite has one writer at a time
                users.add(
                    tenant="default", name="sooner", password="a long phrase", roles=[Role.AUDITOR], actor="x"
                )
            assert found() == []
        finally:
            go_on.set()


def test_verifying_keeps_no_writer_waiting_and_writes_nothing(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode")
            assert cursor.fetchone() == ("wal",)
    real = entry_walk.rows

    def rows_and_a_try_to_write(span: entry_walk.Span) -> Iterator[Any]:
        yield from real(span)
        elsewhere(lambda: factories.write("price.AAPL", 22_000))

    monkeypatch.setattr(entry_walk, "rows", rows_and_a_try_to_write)
    assert found() == []
    assert not connection.in_atomic_block
    factories.write("price.AAPL", 23_000)
    monkeypatch.undo()
    assert found() == []
