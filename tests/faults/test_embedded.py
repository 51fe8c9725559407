"""The embedded console is killed in the middle of a burst and started again on the same folder."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from demo.client import Client
from tests.faults import accounting, burst, scenarios
from tests.faults.stack import Stack
from tests.support.wait_until import until

pytestmark = [pytest.mark.faults, pytest.mark.slow]
PROPOSED = "from runtime.flows.models import Proposal\nanswer = Proposal.objects.count()"


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


def test_a_batch_goes_on_where_a_crash_has_ended_it(embedded: Stack) -> None:
    """Its client sends the same batch again under its key: what was decided stays as it was."""
    client = Client(
        base_url=embedded.base_url,
        agent_id="load-0",
        key=json.loads(embedded.keys.read_text())["load-0"],
        patience_s=90,
    )
    client.handshake()
    body = {
        "policy_kind": "PLACE_ORDER",
        "params": {"symbol": "MSFT", "quantity": 1},
        "execution_constraints": {"validity_window_sec": 600},
        "confidence": 0.9,
        "context": "current",
    }
    sent = {"proposals": [{**body, "explain": f"number {number}"} for number in range(100)]}
    before = embedded.ask(PROPOSED)
    with ThreadPoolExecutor(max_workers=1) as pool:
        heard = pool.submit(client._call, "POST", "/proposals/batch", sent, {"Idempotency-Key": "batch"})
        until(lambda: embedded.ask(PROPOSED) > before + 5, timeout_s=60, interval_s=0.02)
        embedded.processes["server"].kill()
        decided = embedded.ask(PROPOSED) - before
        assert 0 < decided < 100
        embedded.start("server")
        answers = heard.result(timeout=120).body["answers"]
    client.wire.close()
    assert [(each["status"], each["body"]["verdict"]) for each in answers] == [(200, "ACCEPT")] * 100
    assert len({each["body"]["proposal_id"] for each in answers}) == 100
    assert embedded.ask(PROPOSED) == before + 100
    assert embedded.ledger_is_whole()
