"""Several intents claimed in one transaction: each keeps its own lease, attempt and entries."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from runtime.contracts.states import AttemptState, FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting, circuit
from runtime.execution.services.attempting import AttemptStatus, Taken
from runtime.execution.services.claiming import Claimed
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.stops.services import stops
from runtime.workers import embedded
from tests.support import misbehaving_targets, racing, trading_desk
from tests.support.wait_until import until

DONE = (IntentState.DONE, FlowState.CLOSED)
WAITING = (IntentState.PENDING, FlowState.ACCEPTED)


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


@pytest.fixture
def desk(real_db: str, target: misbehaving_targets.StandIn) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=target.base_url)


def take(*intent_ids: UUID, owner: str = "worker") -> dict[UUID, Taken]:
    return attempting.take_together(intent_ids, owner=owner)


def calls_of(target: misbehaving_targets.StandIn) -> list[str]:
    return sorted(seen.headers["Idempotency-Key"] for seen in target.seen)


def test_each_has_what_a_claim_of_one_gives_it(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    alone, *several = (desk.accept() for _ in range(4))
    assert attempting.attempt(alone, owner="worker").status is AttemptStatus.SUCCEEDED
    began = clock.now()
    taken = take(*several)
    for intent_id in several:
        claim, row = taken[intent_id].claim, trading_desk.intent(intent_id)
        assert isinstance(claim, Claimed)
        assert (row.state, row.lease_owner, row.attempts) == (IntentState.CLAIMED, "worker", 1)
        assert row.lease_until is not None
        assert row.lease_until > began
        assert trading_desk.attempts(intent_id) == [AttemptState.STARTED]
        assert attempting.finish(intent_id, taken[intent_id]).status is AttemptStatus.SUCCEEDED
        assert trading_desk.states(intent_id) == DONE
        assert trading_desk.kinds(intent_id) == trading_desk.kinds(alone)
    assert calls_of(target) == sorted(Attempt.objects.values_list("target_key", flat=True))
    assert isinstance(verify_database(), Whole)


def test_workers_with_the_same_messages_call_each_intent_once(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    waiting = [desk.accept() for _ in range(6)]

    def work(number: int) -> None:
        # Each message has them in an order of its own.
        embedded.attempt_all([*waiting[number:], *waiting[:number], waiting[0]], owner=f"worker-{number}")

    racing.race(4, work)
    embedded.attempt_all(waiting, owner="last")
    assert calls_of(target) == sorted(Attempt.objects.values_list("target_key", flat=True))
    assert {trading_desk.states(intent_id) for intent_id in waiting} == {DONE}
    assert len(target.seen) == 6
    assert isinstance(verify_database(), Whole)


def test_a_message_about_what_is_done_costs_one_question_and_the_rest_of_it_is_attempted(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    several = [desk.accept() for _ in range(3)]
    later = desk.accept()
    Intent.objects.filter(pk=later).update(next_at=clock.now() + timedelta(hours=1))
    embedded.attempt_all(several, owner="worker")
    with CaptureQueriesContext(connection) as asked:
        embedded.attempt_all([*several, later], owner="worker")
        embedded.attempt_all(several[:1], owner="worker")
    assert [query["sql"].split()[0] for query in asked if "runtime_" in query["sql"]] == ["SELECT", "SELECT"]
    assert len(target.seen) == 3
    embedded.attempt_all([*several, last := desk.accept()], owner="worker")
    assert len(target.seen) == 4
    assert [trading_desk.states(one) for one in (later, last)] == [WAITING, DONE]


def test_what_workers_do_not_keep_up_with_is_claimed_together_whatever_was_rung_for(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    late = clock.now() - timedelta(seconds=embedded.LATE_S + 1)
    waiting = [desk.accept() for _ in range(embedded.TOGETHER + 2)]
    elsewhere = desk.accept()
    Intent.objects.filter(pk__in=waiting).update(next_at=late)
    Intent.objects.filter(pk=elsewhere).update(next_at=late, target="another")
    embedded.attempt_all(waiting[-1:], owner="worker")
    assert len(target.seen) == embedded.TOGETHER, "as many as one message may have, and of this target"
    assert trading_desk.states(waiting[-1]) == DONE
    assert trading_desk.states(elsewhere) == WAITING
    fresh = [desk.accept() for _ in range(2)]
    embedded.attempt_all(fresh[:1], owner="worker")
    assert [trading_desk.states(one) for one in fresh] == [DONE, WAITING], "nobody is behind here"
    assert isinstance(verify_database(), Whole)


def test_workers_that_catch_up_call_each_intent_once(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    waiting = [desk.accept() for _ in range(12)]
    late = clock.now() - timedelta(seconds=embedded.LATE_S + 1)
    Intent.objects.filter(pk__in=waiting).update(next_at=late)

    def work(number: int) -> None:
        for intent_id in waiting[number::4]:
            embedded.attempt_all([intent_id], owner=f"worker-{number}")

    racing.race(4, work)
    for intent_id in waiting:
        # What nobody could claim in that moment waits for the sweeper.
        embedded.attempt_all([intent_id], owner="last")
    assert [trading_desk.states(one) for one in waiting] == [DONE] * len(waiting)
    assert calls_of(target) == sorted(Attempt.objects.values_list("target_key", flat=True))
    assert len(target.seen) == len(waiting)
    assert isinstance(verify_database(), Whole)


def test_a_message_is_left_to_the_sweeper_where_the_database_does_not_answer(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = desk.accept()

    def gone(*asked: Any) -> None:
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(gone):
        embedded.attempt_all([waiting], owner="worker")
    assert "which of 1 intents wait is not known: the server closed the connection" in caplog.text
    assert target.seen == []
    embedded.attempt_all([waiting], owner="worker")
    assert trading_desk.states(waiting) == DONE


def test_a_worker_that_dies_leaves_each_to_its_own_lease(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    first, second, third = (desk.accept() for _ in range(3))
    taken = take(first, second, third)
    attempting.finish(second, taken[second])
    assert sweeper.expire_all_leases() == 2
    in_doubt = (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert [trading_desk.states(one) for one in (first, second, third)] == [in_doubt, DONE, in_doubt]
    # It was only slow: what it still holds is no longer its to call.
    assert attempting.finish(first, taken[first]).status is AttemptStatus.HELD
    assert len(target.seen) == 1
    assert isinstance(verify_database(), Whole)


def test_one_that_fails_keeps_no_other_from_being_claimed(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned, sound, other = (desk.accept() for _ in range(3))
    real = circuit.try_acquire

    def admit_or_fail(journal: Journal, intent: Intent, **asked: Any) -> Any:
        if intent.pk == poisoned:
            raise RuntimeError("poison")
        return real(journal, intent, **asked)

    monkeypatch.setattr(circuit, "try_acquire", admit_or_fail)
    assert take(poisoned, sound) == {}
    assert [trading_desk.states(one) for one in (poisoned, sound)] == [WAITING, WAITING]
    embedded.attempt_all([sound, poisoned, other], owner="worker")
    assert [trading_desk.states(one) for one in (poisoned, sound, other)] == [WAITING, DONE, DONE]
    assert trading_desk.attempts(poisoned) == []


def test_a_stop_between_the_claim_and_the_calls_lets_none_of_them_through(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    several = [desk.accept() for _ in range(3)]
    taken = take(*several)
    stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
    for intent_id in several:
        assert attempting.finish(intent_id, taken[intent_id]).status is AttemptStatus.HELD
        assert trading_desk.states(intent_id) == WAITING
    assert target.seen == []


def test_what_cannot_be_locked_together_is_left_to_a_claim_of_its_own(desk: trading_desk.Desk) -> None:
    parent, free, other = (desk.accept() for _ in range(3))
    Flow.objects.filter(pk=trading_desk.flow_of(parent).pk).update(children_opened=1)
    unknown = trading_desk.flow_of(free).pk
    assert take(parent, free, other, unknown).keys() == {free, other}
    assert trading_desk.states(parent) == WAITING


@pytest.mark.parametrize("held", ["flow", "agent"])
def test_nobody_waits_long_for_what_another_transaction_has(
    held: str, desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time, and no row locks")
    monkeypatch.setattr(attempting, "TOGETHER_WAIT_MS", 50)
    several = [desk.accept() for _ in range(3)]
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            rows = Flow.objects.filter(pk=trading_desk.flow_of(several[0]).pk)
            list((rows if held == "flow" else Agent.objects.all()).select_for_update(no_key=True))
            locked.set()
            release.wait(30)

    holder = racing.started(hold)
    try:
        assert locked.wait(30)
        taken = take(*several)
    finally:
        release.set()
        holder.result(30)
    assert taken.keys() == (set(several[1:]) if held == "flow" else set())
    assert trading_desk.states(several[0]) == WAITING


def test_the_drain_claims_together_what_has_a_thread_and_stops_clean(
    desk: trading_desk.Desk, target: misbehaving_targets.StandIn
) -> None:
    waiting = [desk.accept() for _ in range(embedded.PER_TARGET)]
    working = embedded.Drain()
    working.start()
    try:
        until(lambda: all(trading_desk.states(one) == DONE for one in waiting), timeout_s=30)
    finally:
        assert working.stop(timeout_s=60)
    owners = set(Attempt.objects.values_list("lease_owner", flat=True))
    assert [owner.rpartition(":")[2] for owner in owners] == ["drain-finder"]
    assert len(target.seen) == embedded.PER_TARGET
