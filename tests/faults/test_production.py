"""The production topology loses a worker, and its Redis, in the middle of a burst."""

import signal
from pathlib import Path

import pytest

from tests.faults import accounting, burst, scenarios
from tests.faults.stack import Stack
from tests.load import broker_count
from tests.support.wait_until import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

_TEN_BELLS = """
from runtime.models import Intent
from runtime.workers.celery_tasks import attempt
ids = [str(key) for key in Intent.objects.order_by("-created_at").values_list("intent_id", flat=True)[:20]]
for key in ids * 10:
    attempt.delay(key)
answer = len(ids)
"""

_ANSWERING = """
from dir_console.celery import app
answer = sorted(name.partition("@")[0] for name in app.control.inspect(timeout=3).ping() or {})
"""


def test_carries_out_a_whole_burst_once(production: Stack, tmp_path: Path) -> None:
    scenarios.carry_out_a_whole_burst(production, tmp_path)


def test_calls_nobody_after_the_stop_button(production: Stack, tmp_path: Path) -> None:
    scenarios.press_the_stop_button(production, tmp_path)


def test_another_worker_goes_on_when_one_is_killed(production: Stack, tmp_path: Path) -> None:
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path)
    try:
        scenarios.past(production, burst.PROPOSALS // 6)
        production.broker.control("slow_after", delay_ms=3_000)
        scenarios.past(production, 1)
        production.processes["worker-1"].kill()
        production.broker.control("ok")
        done = running.finish()
    finally:
        running.kill()
        production.broker.control("ok")
        if not production.processes["worker-1"].alive():
            production.processes["worker-1"].start()

    accounting.check_burst(done)
    accounting.check_exactly_once(production, done)
    assert production.ledger_is_whole()


@pytest.mark.parametrize("way", ["hangs", "ends", "forgets"])
def test_needs_no_redis_to_answer_and_none_to_be_exact(production: Stack, tmp_path: Path, way: str) -> None:
    redis = production.processes["redis"]
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path)
    try:
        scenarios.past(production, burst.PROPOSALS // 6)
        match way:
            case "hangs":
                redis.send(signal.SIGSTOP)
            case "ends":
                redis.kill()
            case _:
                production.forget_messages()
        done = running.finish()
    finally:
        running.kill()
        if way == "hangs":
            redis.send(signal.SIGCONT)
        elif not redis.alive():
            redis.start()

    accounting.check_burst(done)
    assert done.report["propose_p50_ms"] < 2_000, done.report  # no request waits to connect to Redis
    assert accounting.check_exactly_once(production, done) == {"done": len(done.intents)}


def test_workers_outlive_a_redis_that_ends_while_they_call(production: Stack, tmp_path: Path) -> None:
    """One of them asks for more, and holds a message that it can neither acknowledge nor give back."""
    redis = production.processes["redis"]
    # The broker is asked: a command that asks the database takes longer than the call.
    before = production.broker.count()["effects"]
    production.broker.control("slow_after", delay_ms=4_000)
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path, proposals=1)
    try:
        until(lambda: production.broker.count()["effects"] > before, timeout_s=90, interval_s=0.05)
        redis.kill()
        done = running.finish()
    finally:
        running.kill()
        production.broker.control("ok")
        if not redis.alive():
            redis.start()

    assert accounting.check_exactly_once(production, done) == {"done": 1}
    until(lambda: production.ask_anew(_ANSWERING) == ["worker-1", "worker-2"], timeout_s=90)


def test_calls_once_for_ten_messages(production: Stack, tmp_path: Path) -> None:
    production.broker.control("slow", delay_ms=100)
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path, proposals=20)
    try:
        done = running.finish()
        production.ask_anew(_TEN_BELLS)
    finally:
        running.kill()
        production.broker.control("ok")

    accounting.check_burst(done)
    assert accounting.check_exactly_once(production, done) == {"done": 20}
    keys = {row["key"] for row in broker_count.effects(broker_url=production.broker.base_url)}
    assert len(keys) == production.broker.count()["effects"]
    assert production.broker.count()["most_calls_of_one_key"] == 1


def test_goes_on_after_the_database_dropped_every_connection(production: Stack, tmp_path: Path) -> None:
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path)
    try:
        for _ in range(2):
            scenarios.past(production, burst.PROPOSALS // 6)
            production.cut_connections()
        done = running.finish()
    finally:
        running.kill()

    accounting.check_burst(done)
    accounting.check_exactly_once(production, done, timeout_s=30)
    assert production.ledger_is_whole()
