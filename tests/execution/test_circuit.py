"""The circuit of a target around its calls: real targets on the loopback address."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, CircuitState, FlowState, IntentState
from runtime.core import clock
from runtime.execution.models import Circuit
from runtime.execution.services import attempting, circuit
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.stops.services import stops
from tests.support import misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db
C = CircuitState


class Moody:
    """A target that answers with whatever status it is told to."""

    def __init__(self) -> None:
        self.status = 200

    def __call__(self, request: Any) -> None:
        misbehaving_targets.answer(self.status)(request)


@pytest.fixture
def moody(settings: Settings) -> Moody:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    settings.DIR_CIRCUIT_FAILURES = 2
    return Moody()


@pytest.fixture
def target(moody: Moody) -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(moody) as running:
        yield running


@pytest.fixture
def desk(target: misbehaving_targets.StandIn) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=target.base_url)


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def stored_circuit() -> Circuit:
    return Circuit.objects.get(tenant=trading_desk.TENANT, target="broker")


def open_it(desk: trading_desk.Desk, moody: Moody) -> None:
    """Fail twice in a row, by two intents."""
    moody.status = 503
    for _ in range(2):
        assert attempt(desk.accept()).status is AttemptStatus.RETRY_LATER
    moody.status = 200


def make_due(at: datetime | None = None) -> None:
    Circuit.objects.update(retry_at=at or clock.now())


def entries() -> list[tuple[str, str]]:
    rows = LedgerEntry.objects.filter(stream="target:broker").order_by("seq")
    return [(row.kind, row.actor) for row in rows]


def test_a_target_that_works_has_no_row_and_no_entry(desk: trading_desk.Desk) -> None:
    assert attempt(desk.accept()).status is AttemptStatus.SUCCEEDED
    assert not Circuit.objects.exists()
    assert entries() == []


def test_failures_of_several_intents_open_it_and_no_call_leaves(
    desk: trading_desk.Desk, moody: Moody, target: misbehaving_targets.StandIn
) -> None:
    open_it(desk, moody)
    row = stored_circuit()
    assert (row.state, row.failures, row.openings) == (C.OPEN, 2, 1)
    assert entries() == [("circuit:opened", "system")]

    waiting = desk.accept()
    assert attempt(waiting) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail="CIRCUIT_OPEN"
    )
    assert len(target.seen) == 2
    intent = trading_desk.intent(waiting)
    assert (intent.state, intent.attempts, intent.failures) == (IntentState.PENDING, 0, 0)
    assert intent.next_at == row.retry_at
    assert trading_desk.kinds(waiting) == ["record:emitted", "intent:held"]
    assert trading_desk.flow_of(waiting).state == FlowState.ACCEPTED
    assert isinstance(verify_database(), Whole)


def test_a_success_between_forgets_the_failures(desk: trading_desk.Desk, moody: Moody) -> None:
    moody.status = 503
    attempt(desk.accept())
    assert stored_circuit().failures == 1
    moody.status = 200
    attempt(desk.accept())
    assert (stored_circuit().state, stored_circuit().failures) == (C.CLOSED, 0)
    assert entries() == []


def test_a_refusal_for_good_is_the_target_at_work(desk: trading_desk.Desk, moody: Moody) -> None:
    moody.status = 422
    for _ in range(3):
        assert attempt(desk.accept()).status is AttemptStatus.FAILED
    assert not Circuit.objects.exists()


def test_the_probe_closes_it_and_wakes_what_waited(
    desk: trading_desk.Desk, moody: Moody, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    open_it(desk, moody)
    make_due()
    late, probe = desk.accept(), desk.accept()
    Circuit.objects.update(state=C.HALF_OPEN, probe="another/1", retry_at=clock.now() + timedelta(seconds=9))
    assert attempt(late).status is AttemptStatus.HELD
    assert trading_desk.intent(late).next_at == stored_circuit().retry_at
    # The other's lease ends, and the next claim gets the probe in its place.
    held_until = stored_circuit().retry_at
    assert held_until is not None
    make_due()
    Intent.objects.filter(pk=late).update(next_at=clock.now() + timedelta(seconds=30))
    with django_capture_on_commit_callbacks() as waking:
        assert attempt(probe).status is AttemptStatus.SUCCEEDED
    row = stored_circuit()
    assert (row.state, row.failures, row.openings, row.retry_at, row.probe) == (C.CLOSED, 0, 0, None, "")
    assert entries()[-1] == ("circuit:closed", "system")
    assert waking


def test_what_waited_for_the_probe_is_due_once_it_has_succeeded(
    desk: trading_desk.Desk, moody: Moody
) -> None:
    open_it(desk, moody)
    make_due(clock.now() + timedelta(seconds=9))
    waiting, short = desk.accept(), desk.accept(window_s=5)
    for intent_id in (waiting, short):
        assert attempt(intent_id).status is AttemptStatus.HELD
    assert trading_desk.intent(short).next_at == trading_desk.intent(short).valid_until
    held_until = stored_circuit().retry_at
    circuit._release_waiting(tenant=trading_desk.TENANT, target="broker", held_until=held_until)
    for intent_id in (waiting, short):
        assert trading_desk.intent(intent_id).next_at <= clock.now()
    circuit._release_waiting(tenant=trading_desk.TENANT, target="nobody", held_until=held_until)
    (woken,) = LedgerEntry.objects.filter(kind="intent:woken")
    assert woken.payload == {"target": "broker", "count": 2}


def test_a_window_ends_while_the_circuit_is_open(desk: trading_desk.Desk, moody: Moody) -> None:
    open_it(desk, moody)
    waiting = desk.accept()
    attempt(waiting)
    past = clock.now() - timedelta(seconds=1)
    Intent.objects.filter(pk=waiting).update(valid_until=past, next_at=past)
    assert attempt(waiting).status is AttemptStatus.EXPIRED
    assert trading_desk.states(waiting) == (IntentState.EXPIRED, FlowState.ABORTED)


def test_a_probe_that_fails_opens_it_for_twice_as_long(
    desk: trading_desk.Desk, moody: Moody, settings: Settings
) -> None:
    open_it(desk, moody)
    make_due()
    moody.status = 503
    assert attempt(desk.accept()).status is AttemptStatus.RETRY_LATER
    row = stored_circuit()
    assert (row.state, row.openings) == (C.OPEN, 2)
    assert row.retry_at is not None
    assert row.retry_at - row.changed_at == timedelta(seconds=2 * settings.DIR_CIRCUIT_FIRST_S)
    assert entries() == [("circuit:opened", "system")] * 2


def test_a_probe_that_is_stopped_before_its_call_leaves_its_place(
    desk: trading_desk.Desk, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_it(desk, moody)
    make_due()
    probe = desk.accept()
    real = circuit.try_acquire

    def admit_then_stop(*args: Any, **kwargs: Any) -> circuit.Admitted:
        stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
        return real(*args, **kwargs)

    monkeypatch.setattr(circuit, "try_acquire", admit_then_stop)
    assert attempt(probe).detail == "SYSTEM_STOPPED"
    assert (stored_circuit().state, stored_circuit().probe) == (C.OPEN, "")
    stops.resume_all(tenant=trading_desk.TENANT, actor="user:1")
    monkeypatch.undo()
    assert attempt(probe).status is AttemptStatus.SUCCEEDED
    assert stored_circuit().state == C.CLOSED


def test_a_probe_whose_intent_is_blocked_leaves_its_place(desk: trading_desk.Desk, moody: Moody) -> None:
    open_it(desk, moody)
    make_due()
    blocked = desk.accept()
    trading_desk.write_fact("market.state", "CLOSED")
    assert attempt(blocked).status is AttemptStatus.BLOCKED
    assert (stored_circuit().state, stored_circuit().probe) == (C.OPEN, "")


def test_a_probe_that_is_lost_ends_with_its_lease(desk: trading_desk.Desk, moody: Moody) -> None:
    open_it(desk, moody)
    make_due()
    Circuit.objects.update(state=C.HALF_OPEN, probe="lost/1")
    assert attempt(desk.accept()).status is AttemptStatus.SUCCEEDED
    assert stored_circuit().state == C.CLOSED


def test_what_runs_without_a_target_has_no_circuit(settings: Settings) -> None:
    desk = trading_desk.open_desk(executor="simulated")
    Circuit.objects.create(
        target="broker", state=C.OPEN, retry_at=clock.now() + timedelta(hours=1), changed_at=clock.now()
    )
    assert attempt(desk.accept()).status is AttemptStatus.SUCCEEDED


def test_a_person_closes_it_with_a_reason(
    desk: trading_desk.Desk, moody: Moody, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    open_it(desk, moody)

    def close() -> bool | Problem:
        return circuit.close_circuit(
            tenant=trading_desk.TENANT, name="broker", actor="user:1", reason="They say it is mended"
        )

    waiting = desk.accept()
    attempt(waiting)
    with django_capture_on_commit_callbacks(execute=True):
        assert close() is True
    assert stored_circuit().state == C.CLOSED
    assert entries()[-2:] == [("circuit:closed", "user:1"), ("intent:woken", "system")]
    assert LedgerEntry.objects.get(kind="intent:woken").payload == {"target": "broker", "count": 1}
    assert LedgerEntry.objects.get(kind="circuit:closed").payload["reason"] == "They say it is mended"
    assert trading_desk.intent(waiting).next_at <= clock.now()
    assert close() is False
    nobody = circuit.close_circuit(tenant=trading_desk.TENANT, name="nobody", actor="user:1", reason="x")
    assert isinstance(nobody, Problem)
    assert nobody.status == 404


def test_the_database_keeps_a_circuit_consistent(db: None) -> None:
    now = clock.now()
    for wrong in (
        {"state": C.OPEN},
        {"state": C.CLOSED, "retry_at": now},
        {"state": C.HALF_OPEN, "retry_at": now},
        {"state": C.OPEN, "retry_at": now, "probe": "a/1"},
        {"state": "AJAR", "retry_at": now},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Circuit.objects.create(target="t", changed_at=now, **wrong)
    Circuit.objects.create(target="t", changed_at=now)
    with pytest.raises(IntegrityError), transaction.atomic():
        Circuit.objects.create(target="t", changed_at=now)
    assert str(Circuit.objects.get()) == "t CLOSED"


def test_a_retired_agent_and_a_sweep_leave_the_circuit_alone(desk: trading_desk.Desk, moody: Moody) -> None:
    open_it(desk, moody)
    held = desk.accept()
    Agent.objects.update(status=AgentStatus.RETIRED)
    assert attempt(held).status is AttemptStatus.BLOCKED
    sweeper.sweep()
    assert stored_circuit().state == C.OPEN
