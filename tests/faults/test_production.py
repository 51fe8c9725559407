"""The production topology loses a worker, and its Redis, in the middle of a burst."""

import signal
from pathlib import Path

import pytest

from tests.faults import accounting, burst, scenarios
from tests.faults.stack import Stack

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.xdist_group("production")]


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


@pytest.mark.parametrize("way", ["hangs", "ends"])
def test_needs_no_redis_to_answer_and_none_to_be_exact(production: Stack, tmp_path: Path, way: str) -> None:
    redis = production.processes["redis"]
    running = burst.start(base_url=production.base_url, keys=production.keys, folder=tmp_path)
    try:
        scenarios.past(production, burst.PROPOSALS // 6)
        if way == "hangs":
            redis.send(signal.SIGSTOP)
        else:
            redis.kill()
        done = running.finish()
    finally:
        running.kill()
        if way == "hangs":
            redis.send(signal.SIGCONT)
        elif not redis.alive():
            redis.start()

    accounting.check_burst(done)
    assert done.report["propose_p99_ms"] < 3_000, done.report
    assert accounting.check_exactly_once(production, done, timeout_s=45) == {"done": len(done.intents)}
