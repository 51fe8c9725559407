"""What both topologies must stand, told once."""

import json
from pathlib import Path

from tests.faults import accounting, burst
from tests.faults.stack import Stack
from tests.load import broker_count
from tests.support.wait_until import until

_STOP = """
from audit.models import LedgerEntry
from runtime.models import Attempt
from runtime.core import clock
from runtime.stops.services import stops
stop = stops.stop_all(tenant="default", actor="user:1", reason="A test pressed the button.")
answered_at = clock.now()
entry = LedgerEntry.objects.filter(kind="system:stopped").latest("id")
ended = Attempt.objects.filter(sent_at__lte=stop.stopped_at, finished_at__lte=answered_at)
answer = [*entry.payload["under_way"], *(str(one) for one in ended.values_list("intent_id", flat=True))]
"""
_UNDER_WAY = """
from runtime.models import Attempt
answer = Attempt.objects.filter(state="STARTED").count()
"""
_RESUME = """
from runtime.stops.services import stops
answer = stops.resume_all(tenant="default", actor="user:1")
"""


def carry_out_a_whole_burst(stack: Stack, folder: Path) -> None:
    """Every proposal is accepted, carried out once, and its agent told."""
    running = burst.start(base_url=stack.base_url, keys=stack.keys, folder=folder, wait_s=20 * burst.PATIENCE)
    try:
        done = running.finish()
    finally:
        running.kill()

    accounting.check_burst(done)
    assert done.report["outcomes"] == done.report["accepted"], done.report
    print(json.dumps(done.report))  # the figures of a bigger burst, with `pytest -s`
    assert accounting.check_exactly_once(stack, done) == {"done": len(done.intents)}


def press_the_stop_button(stack: Stack, folder: Path) -> None:
    """No call after the stop; what waited is carried out when it is lifted."""
    stack.broker.control("slow", delay_ms=200)
    running = burst.start(base_url=stack.base_url, keys=stack.keys, folder=folder)
    try:
        past(stack, burst.PROPOSALS // 10)
        # What the entry names, and what had ended: a row that is read later may be of a later call.
        begun = set(stack.ask(_STOP))
        done = running.finish()
        until(lambda: stack.ask(_UNDER_WAY) == 0, timeout_s=90)
        called = {row["intent_id"] for row in broker_count.effects(broker_url=stack.broker.base_url)}
        assert called <= begun, "a call began after the stop had answered"
        assert stack.ask(accounting.WAITING) > 0, "the stop came too late to hold anything"
    finally:
        running.kill()
        stack.broker.control("ok")
        stack.ask(_RESUME)

    accounting.check_burst(done)
    assert accounting.check_exactly_once(stack, done) == {"done": len(done.intents)}


def past(stack: Stack, share: int) -> int:
    """Wait until some of a burst was carried out; returns how many effects there are."""
    before = stack.broker.count()["effects"]
    until(lambda: stack.broker.count()["effects"] >= before + share, timeout_s=90, interval_s=0.05)
    return stack.broker.count()["effects"]
