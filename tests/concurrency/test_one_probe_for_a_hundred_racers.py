"""A circuit that is half open lets one call through, however many ask at once."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.states import CircuitState, IntentState
from runtime.core import clock, transactions
from runtime.execution.models import Circuit
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent
from tests.support import misbehaving_targets, trading_desk
from tests.support.racing import race

RACERS = 100
FAILING = 12


@pytest.fixture
def busy(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(503)) as running:
        yield running


def attempt(intent_id: Any, number: int) -> AttemptStatus:
    while True:
        try:
            return attempting.attempt(intent_id, owner=f"worker-{number}").status
        except transactions.BusyError:
            continue


@pytest.mark.slow
def test_of_a_hundred_racers_one_calls_and_its_success_lets_the_others_through(
    real_db: str, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200), is_held=True) as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        waiting = [desk.accept(window_s=600) for _ in range(RACERS)]
        Circuit.objects.create(
            target="broker",
            state=CircuitState.OPEN,
            failures=5,
            openings=1,
            retry_at=clock.now(),
            changed_at=clock.now(),
        )
        done: list[AttemptStatus] = []
        counting = threading.Lock()

        def work(number: int) -> AttemptStatus:
            status = attempt(waiting[number], number)
            with counting:
                done.append(status)
                if len(done) == RACERS - 1:
                    target.release.set()
            return status

        results = race(RACERS, work)
        assert (results.count(AttemptStatus.SUCCEEDED), results.count(AttemptStatus.HELD)) == (1, RACERS - 1)
        assert len(target.seen) == 1
    assert Circuit.objects.get().state == CircuitState.CLOSED
    assert LedgerEntry.objects.filter(kind="circuit:closed").count() == 1
    # Those that had to wait for the probe are due at once.
    left = Intent.objects.filter(state=IntentState.PENDING)
    assert left.count() == RACERS - 1
    assert not left.filter(next_at__gt=clock.now()).exists()
    assert isinstance(verify_database(), Whole)


def test_failures_at_once_are_each_counted_and_open_it_once(
    real_db: str, busy: misbehaving_targets.StandIn, settings: Settings
) -> None:
    settings.DIR_CIRCUIT_FAILURES = FAILING
    desk = trading_desk.open_desk(base_url=busy.base_url)
    waiting = [desk.accept(window_s=600) for _ in range(FAILING)]
    assert set(race(FAILING, lambda number: attempt(waiting[number], number))) == {AttemptStatus.RETRY_LATER}
    row = Circuit.objects.get()
    assert (row.state, row.failures, row.openings) == (CircuitState.OPEN, FAILING, 1)
    assert LedgerEntry.objects.filter(kind="circuit:opened").count() == 1
    assert isinstance(verify_database(), Whole)
