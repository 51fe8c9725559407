"""Health tells the truth: each part that fails is named, and costs the 200."""

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.test import Client
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from dir_console import health
from runtime.core import clock, ports
from runtime.epochs.models import Boot
from runtime.epochs.services import boots
from runtime.maintenance.models import WatchRound
from runtime.maintenance.services import sealing, sweeper, watchdog
from runtime.workers import sweep_rounds
from runtime.workers.embedded import Drain
from tests.support.wait_until import until

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_began_s", float("-inf"))


@pytest.fixture
def beating() -> None:
    watchdog.keep_round(at=clock.now())
    sealing.seal_now()


def failing() -> dict[str, str]:
    """What `/readyz` names; nothing where it says yes."""
    answer = Client().get("/readyz")
    if answer.status_code == 200:
        assert answer.json() == {"status": "ok"}
        return {}
    assert answer.status_code == 503
    body: dict[str, Any] = answer.json()
    assert body["status"] == "unavailable"
    assert all(why in body["why"] for why in body["failing"].values())
    found: dict[str, str] = body["failing"]
    return found


def gauges() -> dict[str, float]:
    text = Client().get("/metrics").content.decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_a_sweep_is_a_heartbeat() -> None:
    sealing.seal_now()
    assert failing() == {"sweeper": "the sweeper has never run"}
    assert gauges()["dir_sweeper_age_seconds"] == -1
    sweeper.sweep()
    assert failing() == {}
    assert gauges()['dir_ready{part="sweeper"}'] == 1
    assert 0 <= gauges()["dir_sweeper_age_seconds"] < 60


def test_a_ledger_that_is_not_sealed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog.keep_round(at=clock.now())
    assert failing() == {"sealer": "the ledger has never been sealed"}
    assert gauges()["dir_sealed_age_seconds"] == -1
    sealing.seal_now()
    assert failing() == {}
    assert 0 <= gauges()["dir_sealed_age_seconds"] < 60
    # The entry that begins the key was sealed, and nothing waits.
    assert gauges()["dir_entries_unsealed"] == 0
    monkeypatch.setattr(health, "UNSEALED_S", -1.0)
    (words,) = failing().values()
    assert words.startswith("the ledger has not been sealed for ")
    assert gauges()['dir_ready{part="sealer"}'] == 0


@pytest.mark.parametrize(("age_s", "is_late"), [(health.LATE_S - 3, False), (health.LATE_S + 3, True)])
def test_a_heartbeat_that_stays_away_is_missed(age_s: float, is_late: bool, beating: None) -> None:
    WatchRound.objects.update(last_at=clock.now() - timedelta(seconds=age_s))
    assert ("sweeper" in failing()) is is_late
    assert gauges()['dir_ready{part="sweeper"}'] == (not is_late)


def test_a_heartbeat_of_a_clock_that_was_set_back_is_missed(beating: None) -> None:
    WatchRound.objects.update(last_at=clock.now() + timedelta(hours=1))
    assert "sweeper" in failing()
    assert gauges()["dir_sweeper_age_seconds"] > health.LATE_S
    sweeper.sweep()
    assert failing() == {}, "the next one puts it right"


def test_a_sweeper_that_fails_in_every_round_is_not_well(
    beating: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise ValueError("cannot be expired")

    with monkeypatch.context() as broken:
        broken.setattr(ports, "expire_escalations", fail)
        sweep_rounds.run()
        assert failing() == {}, "once may pass"
        long_ago = clock.now() - timedelta(seconds=health.LATE_S + 1)
        cache.set(sweep_rounds.FAILING, long_ago.isoformat())
        sweep_rounds.run()
        assert failing() == {"sweeper": "the sweeper fails in every round: see its log"}
    monkeypatch.setattr(sweep_rounds, "_thorough_at_s", time.monotonic())
    sweep_rounds.run()
    assert "sweeper" in failing(), "a round that leaves something out may have left out what fails"
    monkeypatch.setattr(sweep_rounds, "_thorough_at_s", float("-inf"))
    sweep_rounds.run()
    assert failing() == {}


def test_a_server_that_has_just_begun_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing()
    monkeypatch.setattr(health, "_began_s", float("inf"))
    assert failing() == {}


def test_a_thread_that_died_is_named(beating: None, monkeypatch: pytest.MonkeyPatch) -> None:
    may_live = threading.Event()
    monkeypatch.setattr(Drain, "_find", lambda self: may_live.wait(30))
    monkeypatch.setattr(Drain, "_sweep", lambda self: may_live.wait(30))
    monkeypatch.setattr(Drain, "_seal", lambda self: may_live.wait(30))
    working = Drain()
    working.start()
    try:
        assert failing() == {}
        may_live.set()
        dead = {"threads": "a thread has stopped: drain-finder, drain-sweeper, drain-sealer"}
        until(lambda: failing() == dead)  # the one thread may end a moment before the other
    finally:
        working.stop(timeout_s=30)
    assert failing() == {}


def test_a_disk_that_is_nearly_full(beating: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite")
    room = SimpleNamespace(f_bavail=1, f_frsize=health.LEAST_FREE_BYTES)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert failing() == {}
    room.f_frsize -= 1
    assert failing() == {"disk": "7 MB are free on the disk of the data folder"}


def test_a_disk_of_another_machine_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "postgresql")
    assert health.free_bytes() is None


def test_a_redis_that_does_not_answer(beating: None, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert failing() == {"redis": "Redis does not answer: nothing is executed until it does"}


def test_a_server_that_was_succeeded_is_not_ready(beating: None) -> None:
    with boots.ended():
        first = boots.begin()
        assert failing() == {}
        boots.begin()
        Boot.objects.update(boot_id=first)
        assert failing() == {"database": "another server has taken the database"}


def test_a_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[object]:
        raise DatabaseError("gone")

    monkeypatch.setattr(LedgerEntry.objects, "order_by", fail)
    monkeypatch.setattr(connection, "close", lambda: None)
    assert failing() == {"database": "the database does not answer"}
