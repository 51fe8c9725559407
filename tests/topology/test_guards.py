"""Guards off the request: threads in one process, a task in production, and a sweeper behind both."""

import logging
import threading
from datetime import timedelta

import pytest

from audit.live.background import PerProcess
from runtime.contracts.guard import GuardRunState
from runtime.core import clock, ports, transactions
from runtime.guards.models import GuardRun, Review
from runtime.guards.queries import due_runs
from runtime.guards.services import guard_runs
from runtime.maintenance.services import sweeper
from runtime.workers import celery_tasks, embedded, guard_threads
from tests.support import factories, guard_rounds
from tests.support.wait_until import until


def test_the_drain_lets_guards_look_by_themselves(real_db: str) -> None:
    desk = factories.desk()
    guard_rounds.configure()
    working = embedded.Drain()
    working.start()
    try:
        guard_rounds.propose(desk)
        until(lambda: Review.objects.exists(), timeout_s=90)
        guard_rounds.propose(desk, explain="Buying AAPL.")
        until(lambda: GuardRun.objects.filter(state=GuardRunState.CLEAR).exists(), timeout_s=90)
    finally:
        assert working.stop(timeout_s=30)


def test_a_guard_thread_outlives_a_database_that_fails(
    real_db: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks again a second later; here it is told to stop instead."""
    stopping = threading.Event()

    def fail(**_: object) -> list[object]:
        stopping.set()
        raise OSError("no database")

    monkeypatch.setattr(due_runs, "list_due", fail)
    guard_threads.ring(())
    guard_threads.serve(stopping)
    assert "could not be found" in caplog.text


def test_a_guard_thread_that_is_told_to_stop_takes_no_more(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = threading.Event()
    looked: list[int] = []
    monkeypatch.setattr(due_runs, "list_due", lambda **_: [(1, clock.now()), (2, clock.now())])

    def look(run_id: int) -> None:
        looked.append(run_id)
        stopping.set()

    monkeypatch.setattr(guard_threads, "run_quietly", look)
    guard_threads.ring(())
    guard_threads.serve(stopping)
    assert looked == [1]


@pytest.mark.parametrize(
    ("error", "words"), [(transactions.BusyError(), "is contended"), (OSError("odd"), "guard run 7 failed")]
)
def test_what_goes_wrong_in_a_look_is_logged(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(run_id: int) -> None:
        raise error

    monkeypatch.setattr(guard_runs, "run", fail)
    with caplog.at_level(logging.INFO):
        guard_threads.run_quietly(7)
    assert words in caplog.text


def test_in_production_the_ids_go_to_the_broker_and_come_back_as_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(celery_tasks.guard, "apply_async", lambda args, **_: sent.append(args[0]))
    monkeypatch.setattr(celery_tasks, "ringers", PerProcess(celery_tasks.Ringer))
    celery_tasks.ring_guards([7, 8])
    until(lambda: sent == ["7", "8"], timeout_s=90)
    looked: list[int] = []
    monkeypatch.setattr(guard_runs, "run", looked.append)
    celery_tasks.guard("7")
    assert looked == [7]
    assert celery_tasks.guard.name == "runtime.guard"


@pytest.mark.django_db
def test_the_sweeper_rings_for_what_a_lost_message_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    monkeypatch.setattr(ports, "ring_guards", rung.extend)
    guard_rounds.configure()
    guard_rounds.propose(factories.desk())
    run = GuardRun.objects.get()
    assert sweeper.sweep().guards == 1
    assert rung == [run.pk]
    GuardRun.objects.update(next_at=clock.now() - timedelta(seconds=5))
    assert sweeper.sweep().guards == 0, "not again at once"
    assert guard_runs.run(run.pk) == GuardRunState.FLAGGED
    assert sweeper.sweep().guards == 0
