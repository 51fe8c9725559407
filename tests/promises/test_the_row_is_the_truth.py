"""Losing every message costs seconds, not correctness."""

from functools import partial
from uuid import UUID

import pytest

from runtime.core import ports
from runtime.flows.models import Intent
from runtime.workers import embedded
from tests.support.end_to_end import Console
from tests.support.wait_until import until


def test_workers_find_what_nobody_rang_for(racing_desk: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "ring", lambda intent_ids: None)
    working = embedded.Drain()
    working.start()
    try:
        dfids = [racing_desk.propose()["dfid"] for _ in range(3)]
        until(lambda: Intent.objects.filter(state="DONE").count() == 3, timeout_s=90)
    finally:
        assert working.stop(timeout_s=60)
    assert {racing_desk.flow(dfid)["state"] for dfid in dfids} == {"CLOSED"}
    assert racing_desk.effects() == 3


def test_a_message_that_comes_ten_times_does_nothing_more(racing_desk: Console) -> None:
    verdict = racing_desk.propose()
    attempt = partial(embedded.attempt_quietly, UUID(verdict["intent_id"]), owner="worker")
    assert all(attempt() for _ in range(10))
    assert racing_desk.broker.calls == 1
