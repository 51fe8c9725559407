"""The embedded console is killed in the middle of a burst and started again on the same folder."""

from pathlib import Path

import pytest

from tests.faults import accounting, burst, scenarios
from tests.faults.stack import Stack
from tests.support.wait_until import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_carries_out_a_whole_burst_once(embedded: Stack, tmp_path: Path) -> None:
    scenarios.carry_out_a_whole_burst(embedded, tmp_path)


def test_calls_nobody_after_the_stop_button(embedded: Stack, tmp_path: Path) -> None:
    scenarios.press_the_stop_button(embedded, tmp_path)


def test_loses_and_repeats_nothing_when_the_server_is_killed(embedded: Stack, tmp_path: Path) -> None:
    before = embedded.broker.count()["effects"]
    running = burst.start(base_url=embedded.base_url, keys=embedded.keys, folder=tmp_path)
    try:
        until(
            lambda: embedded.broker.count()["effects"] > before + burst.PROPOSALS // 6,
            timeout_s=90,
            interval_s=0.05,
        )
        embedded.broker.control("slow_after", delay_ms=4_000)
        hanging = embedded.broker.count()["effects"]
        until(lambda: embedded.broker.count()["effects"] > hanging, timeout_s=90, interval_s=0.05)

        embedded.processes["server"].kill()
        embedded.broker.control("ok")
        embedded.start("server")
        done = running.finish()
    finally:
        running.kill()
        embedded.broker.control("ok")

    accounting.check_burst(done)
    assert accounting.check_exactly_once(embedded, done)["with a person"] > 0
    calls = accounting.calls_of_those_in_doubt(embedded, done)
    assert set(map(tuple, calls.values())) == {("UNKNOWN",)}, "one call each, whose end nobody knows"
    assert embedded.ledger_is_whole()


def test_waits_for_a_broker_that_is_out_of_order(embedded: Stack, tmp_path: Path) -> None:
    embedded.broker.control("fail", times=3)
    running = burst.start(base_url=embedded.base_url, keys=embedded.keys, folder=tmp_path, proposals=20)
    try:
        done = running.finish()
    finally:
        running.kill()
        embedded.broker.control("ok")

    accounting.check_burst(done)
    assert accounting.check_exactly_once(embedded, done) == {"done": 20}


@pytest.mark.parametrize("mode", ["drop_after", "garbage"])
def test_asks_a_person_when_the_answer_proves_nothing(embedded: Stack, tmp_path: Path, mode: str) -> None:
    embedded.broker.control(mode, times=2)
    running = burst.start(base_url=embedded.base_url, keys=embedded.keys, folder=tmp_path, proposals=12)
    try:
        done = running.finish()
    finally:
        running.kill()
        embedded.broker.control("ok")

    accounting.check_burst(done)
    assert accounting.check_exactly_once(embedded, done) == {"done": 10, "with a person": 2}
