"""Many workers, one intent: real threads, real commits, a target that counts."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.db import connection, transaction
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.states import AttemptState, FlowState, IntentState
from runtime.core import clock, transactions
from runtime.execution.services import attempting, calling, circuit, claiming, recording
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import due_intents
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.stops.services import call_gate, stops
from runtime.workers import embedded
from tests.support import misbehaving_targets, trading_desk
from tests.support.wait_until import until as until_by

T = TypeVar("T")
# A loaded machine is slow, not wrong.
until = partial(until_by, timeout_s=30.0)
WORKERS = 8


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


def race(count: int, work: Callable[[int], T]) -> list[T]:
    """`work` in `count` threads that start together, each with a connection of its own."""
    start = threading.Barrier(count)

    def one(number: int) -> T:
        try:
            start.wait(timeout=60)
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(one, range(count)))


def attempt(intent_id: UUID, number: int) -> AttemptStatus | None:
    try:
        return attempting.attempt(intent_id, owner=f"worker-{number}").status
    except transactions.BusyError:
        return None


def test_eight_workers_on_one_intent_make_one_call(real_db: str, target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    results = race(WORKERS, lambda number: attempt(intent_id, number))
    assert results.count(AttemptStatus.SUCCEEDED) == 1
    assert set(results) <= {AttemptStatus.SUCCEEDED, AttemptStatus.NOT_DUE, AttemptStatus.ENDED, None}
    assert len(target.seen) == 1
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert trading_desk.attempts(intent_id) == [AttemptState.SUCCEEDED]
    assert isinstance(verify_database(), Whole)


def test_a_claim_that_waits_for_its_agent_does_not_keep_the_intent(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    """Whoever wakes what waits for a target locks intents without their flows: a claim locks its own last."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite locks no rows")
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()

    def is_waited_for() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            )
            return cursor.fetchone() is not None

    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            Agent.objects.select_for_update(no_key=True).get(agent_id=trading_desk.AGENT)
            waiting = pool.submit(race, 1, lambda number: attempt(intent_id, number))
            until(is_waited_for)
            assert Intent.objects.select_for_update(nowait=True).get().pk == intent_id
        assert waiting.result() == [AttemptStatus.SUCCEEDED]


def test_many_workers_on_many_intents_call_each_once(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    desk = trading_desk.open_desk(base_url=target.base_url)
    waiting = [desk.accept() for _ in range(6)]

    def work(number: int) -> None:
        for intent_id in waiting[number % 6 :] + waiting[: number % 6]:
            attempt(intent_id, number)

    race(WORKERS, work)
    for intent_id in waiting:
        attempt(intent_id, 0)
    assert sorted(seen.headers["Idempotency-Key"] for seen in target.seen) == sorted(
        Attempt.objects.values_list("target_key", flat=True)
    )
    assert len(target.seen) == 6
    assert isinstance(verify_database(), Whole)


def test_a_cancel_and_a_claim_never_both_win(real_db: str, target: misbehaving_targets.StandIn) -> None:
    desk = trading_desk.open_desk(base_url=target.base_url)
    for _ in range(5):
        target.seen.clear()
        intent_id = desk.accept()
        dfid = trading_desk.flow_of(intent_id).dfid

        def work(number: int, intent_id: UUID = intent_id, dfid: UUID = dfid) -> Any:
            if number == 0:
                return flows.cancel(agent=desk.agent, dfid=dfid, reason="changed my mind")
            return attempt(intent_id, number)

        cancelled, status = race(2, work)
        if isinstance(cancelled, Problem):
            assert (status, len(target.seen)) == (AttemptStatus.SUCCEEDED, 1)
        else:
            assert (status, len(target.seen)) == (AttemptStatus.ENDED, 0)
            assert trading_desk.states(intent_id) == (IntentState.CANCELLED, FlowState.ABORTED)


def test_a_worker_and_the_sweeper_on_one_lease_end_it_once(
    real_db: str, target: misbehaving_targets.StandIn, settings: Settings
) -> None:
    """The lease ends while the answer comes in: either the result is recorded, or the doubt is."""
    desk = trading_desk.open_desk(base_url=target.base_url)
    for _ in range(5):
        intent_id = desk.accept()
        claimed = transactions.retry_on_conflict(partial(claiming.claim, intent_id, owner="worker"))
        assert isinstance(claimed, claiming.Claimed)

        def work(number: int, claimed: claiming.Claimed = claimed) -> Any:
            if number == 0:
                return sweeper.expire_all_leases()
            try:
                result = calling.call(claimed, lease_left_s=30.0)
            except call_gate.ClosedError:
                return None  # the sweeper was first: then nothing goes out
            return transactions.retry_on_conflict(lambda: recording.record(claimed, result, jitter=0.0))

        rescued, _ = race(2, work)
        ends = {0: (IntentState.DONE, FlowState.CLOSED), 1: (IntentState.IN_DOUBT, FlowState.ESCALATED)}
        assert trading_desk.states(intent_id) == ends[rescued]
        assert Escalation.objects.filter(intent_id=intent_id).count() == rescued
    assert isinstance(verify_database(), Whole)


def test_a_stop_that_was_confirmed_lets_no_call_through(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    desk = trading_desk.open_desk(base_url=target.base_url)
    waiting = [desk.accept() for _ in range(12)]
    begun: set[UUID] = set()

    def work(number: int) -> None:
        if number == 0:
            until(lambda: len(target.seen) >= 2)
            stop = stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
            answered_at = clock.now()
            named = LedgerEntry.objects.get(kind="system:stopped").payload["under_way"]
            ended = Attempt.objects.filter(sent_at__lte=stop.stopped_at, finished_at__lte=answered_at)
            begun.update(UUID(one) for one in named)
            begun.update(ended.values_list("intent_id", flat=True))
            return
        for intent_id in waiting:
            attempt(intent_id, number)

    race(3, work)
    # What the target has seen by the end, long after the answer, is what the stop named or found ended.
    keys = dict(Attempt.objects.values_list("target_key", "intent_id"))
    assert {keys[seen.headers["Idempotency-Key"]] for seen in target.seen} == begun
    assert due_intents.list_due(at=clock.now(), limit=50) == []
    stops.resume_all(tenant=trading_desk.TENANT, actor="user:1")
    left = due_intents.list_due(at=clock.now(), limit=50)
    assert len(left) + len(target.seen) == 12


@pytest.mark.parametrize("whose", ["everything", "one agent"])
def test_a_stop_names_the_calls_under_way_and_lets_no_other_begin(
    real_db: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """One call has begun and waits for its answer; another is about to send its first byte."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    at_the_gate, stopped = threading.Event(), threading.Event()
    passing = call_gate.passing

    def late(*, intent_id: UUID, **asked: Any) -> Any:
        if intent_id == second:
            at_the_gate.set()
            assert stopped.wait(20)
        return passing(intent_id=intent_id, **asked)

    monkeypatch.setattr(call_gate, "passing", late)
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200), is_held=True) as slow:
        desk = trading_desk.open_desk(base_url=slow.base_url)
        first, second = desk.accept(), desk.accept()

        def work(number: int) -> Any:
            if number < 2:
                return attempt((first, second)[number], number)
            until(lambda: slow.seen and at_the_gate.is_set())
            if whose == "everything":
                stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
            else:
                stops.stop_agent(
                    tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="user:1", reason="trial"
                )
            stopped.set()
            slow.release.set()
            return AttemptStatus.ENDED

        assert race(3, work) == [AttemptStatus.SUCCEEDED, AttemptStatus.HELD, AttemptStatus.ENDED]
        assert len(slow.seen) == 1
    entry = LedgerEntry.objects.get(kind__in=("system:stopped", "agent:stopped"))
    assert entry.payload["under_way"] == [str(first)]
    assert trading_desk.states(second) == (IntentState.PENDING, FlowState.ACCEPTED)


def test_a_stop_waits_for_the_first_byte_of_a_call_that_has_looked(
    real_db: str, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has seen no stop and has sent nothing yet: the stop's answer comes after its first byte."""
    order: list[str] = []
    looked, stopped = threading.Event(), threading.Event()
    passing = call_gate.passing

    @contextmanager
    def put_aside(**asked: Any) -> Iterator[None]:
        with passing(**asked):
            looked.set()
            stopped.wait(1)  # a stop that did not wait for this call would be through by now
            order.append("first byte")
            yield

    monkeypatch.setattr(call_gate, "passing", put_aside)
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()

    def work(number: int) -> None:
        if number == 0:
            attempt(intent_id, number)
            return
        until(looked.is_set)
        stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
        order.append("stopped")
        stopped.set()

    race(2, work)
    assert order == ["first byte", "stopped"]
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_the_drain_finds_what_nobody_rang_for_and_stops_clean(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    desk = trading_desk.open_desk(base_url=target.base_url)
    early = desk.accept()
    working = embedded.Drain()
    working.start()
    try:
        until(lambda: trading_desk.states(early)[0] is IntentState.DONE)
        late = desk.accept()
        embedded.ring([late])
        until(lambda: trading_desk.states(late)[0] is IntentState.DONE)
    finally:
        assert working.stop(timeout_s=60)
    assert len(target.seen) == 2


def test_one_slow_target_does_not_block_the_rest(real_db: str, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with (
        misbehaving_targets.stand_in(misbehaving_targets.answer(200), is_held=True) as slow,
        misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as quick,
    ):
        desk = trading_desk.open_desk(base_url=slow.base_url)
        stuck = [desk.accept() for _ in range(4)]
        trading_desk.aim_elsewhere("quick", quick.base_url)
        free = desk.accept()
        working = embedded.Drain()
        working.start()
        try:
            until(lambda: trading_desk.states(free)[0] is IntentState.DONE)
            until(lambda: len(slow.seen) == embedded.PER_TARGET)
            slow.release.set()
            until(lambda: all(trading_desk.states(one)[0] is IntentState.DONE for one in stuck))
        finally:
            slow.release.set()
            assert working.stop(timeout_s=60)
        assert len(slow.seen) == 4


def test_an_intent_that_cannot_be_attempted_rests_between_tries(
    real_db: str, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = trading_desk.open_desk(base_url=target.base_url)
    poisoned, sound = desk.accept(), desk.accept()
    tries: list[UUID] = []
    real = circuit.try_acquire

    def admit_or_fail(journal: Journal, intent: Intent, **asked: Any) -> Any:
        tries.append(intent.pk)
        if intent.pk == poisoned:
            raise RuntimeError("poison")
        return real(journal, intent, **asked)

    monkeypatch.setattr(circuit, "try_acquire", admit_or_fail)
    working = embedded.Drain()
    working.start()
    try:
        until(lambda: trading_desk.states(sound)[0] is IntentState.DONE)
        # Together with the other, alone, and after a rest.
        until(lambda: tries.count(poisoned) >= 3)
        assert tries.count(poisoned) <= 4
    finally:
        assert working.stop(timeout_s=60)
    assert trading_desk.states(poisoned)[0] is IntentState.PENDING
