"""Whose call a half-open circuit takes: one that settles itself, or any after a look at its health."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from uuid import UUID

import pytest
from django.db import InterfaceError, OperationalError
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import AttemptState, CircuitState, FlowState, IntentState
from runtime.core import clock
from runtime.execution.models import Circuit
from runtime.execution.services import attempting, calling, circuit
from runtime.execution.services.attempting import AttemptStatus
from runtime.execution.services.claiming import Claimed
from runtime.flows.models import Attempt, Intent
from runtime.maintenance.services import sweeper
from runtime.packs.services import packs
from runtime.stops.services import call_gate, stops
from tests.support import booking_targets, fake_target, ledger_tampering, misbehaving_targets, trading_desk
from tests.support.wait_until import until

pytestmark = pytest.mark.django_db


class Sick:
    """A target that says at /health how it is; its calls end in 500 while it is ill."""

    def __init__(self) -> None:
        self.status = 500

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        misbehaving_targets.answer(self.status)(request)


@pytest.fixture
def sick(settings: Settings) -> Sick:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    settings.DIR_CIRCUIT_FAILURES = 1
    return Sick()


@pytest.fixture
def target(sick: Sick) -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(sick) as running:
        yield running
    assert isinstance(verify_database(), Whole)


def open_desk(
    monkeypatch: pytest.MonkeyPatch, text: str, target: misbehaving_targets.StandIn
) -> trading_desk.Desk:
    monkeypatch.setattr(trading_desk, "PACK", text)
    return trading_desk.open_desk(base_url=target.base_url)


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now())
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def half_open() -> None:
    """The time of the open circuit is over."""
    Circuit.objects.update(retry_at=clock.now())


def both(
    monkeypatch: pytest.MonkeyPatch, target: misbehaving_targets.StandIn, *, waiting: str
) -> tuple[UUID, UUID]:
    """An open circuit; an intent that would need a person, and one that settles itself, both due."""
    plain = trading_desk.PACK
    desk = open_desk(monkeypatch, booking_targets.pack(on_unknown="person", honours_keys=True), target)
    attempt(desk.accept())
    needy = desk.accept()
    monkeypatch.setattr(trading_desk, "PACK", plain)
    text = booking_targets.pack(on_unknown=waiting, honours_keys=True).replace(
        "version: 1.0.0", "version: 1.1.0"
    )
    assert isinstance(booking_targets.reload(text, base_url=target.base_url), packs.Loaded)
    return needy, desk.accept()


@pytest.mark.parametrize("waiting", ["resend", "probe"])
def test_a_call_that_settles_itself_goes_first(
    monkeypatch: pytest.MonkeyPatch, sick: Sick, target: misbehaving_targets.StandIn, waiting: str
) -> None:
    needy, better = both(monkeypatch, target, waiting=waiting)
    half_open()
    assert attempt(needy) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail="CIRCUIT_OPEN"
    )
    assert attempt(better).status is AttemptStatus.RETRY_LATER
    assert Circuit.objects.get().openings == 2

    half_open()
    sick.status = 200
    Intent.objects.filter(pk=better).update(next_at=clock.now())
    assert attempt(needy).status is AttemptStatus.HELD
    attempt(better)
    assert Circuit.objects.get().state == CircuitState.CLOSED
    assert attempt(needy).status is AttemptStatus.SUCCEEDED


@pytest.mark.parametrize("why", ["with a person", "late", "not due", "long enough"])
def test_it_waits_for_nobody_who_does_not_come(
    monkeypatch: pytest.MonkeyPatch,
    sick: Sick,
    target: misbehaving_targets.StandIn,
    settings: Settings,
    why: str,
) -> None:
    needy, better = both(monkeypatch, target, waiting="resend")
    half_open()
    now, row = clock.now(), Intent.objects.filter(pk=better)
    if why == "with a person":
        row.update(state=IntentState.WITH_PERSON)
    elif why == "late":
        row.update(valid_until=now - timedelta(seconds=1))
    elif why == "not due":
        row.update(next_at=now + timedelta(seconds=60))
    else:
        Circuit.objects.update(retry_at=now - timedelta(seconds=settings.DIR_LEASE_S))
    sick.status = 200
    assert attempt(needy).status is AttemptStatus.SUCCEEDED


def test_a_target_is_asked_how_it_is_before_any_call(
    monkeypatch: pytest.MonkeyPatch, sick: Sick, target: misbehaving_targets.StandIn
) -> None:
    text = booking_targets.pack(on_unknown="person").replace("refuses: []", "refuses: [], health: /health")
    desk = open_desk(monkeypatch, text, target)
    attempt(desk.accept())
    paths = [seen.path for seen in target.seen]
    assert paths == ["/orders"], "a closed circuit asks nobody"

    waiting = desk.accept()
    half_open()
    assert attempt(waiting) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail="CIRCUIT_OPEN"
    )
    row = Circuit.objects.get()
    assert (row.state, row.openings) == (CircuitState.OPEN, 2)
    assert [seen.path for seen in target.seen] == ["/orders", "/health"]
    assert "Idempotency-Key" not in target.seen[-1].headers
    assert Attempt.objects.get(intent=waiting).state == AttemptState.HELD
    assert trading_desk.states(waiting) == (IntentState.PENDING, FlowState.ACCEPTED)

    half_open()
    sick.status = 204
    assert attempt(waiting).detail == "IN_DOUBT"  # a 204 is no receipt, but it is health
    assert [seen.path for seen in target.seen][-2:] == ["/health", "/orders"]


def test_a_stop_keeps_the_question_back_too(
    monkeypatch: pytest.MonkeyPatch, sick: Sick, target: misbehaving_targets.StandIn
) -> None:
    text = booking_targets.pack(on_unknown="person").replace("refuses: []", "refuses: [], health: /health")
    desk = open_desk(monkeypatch, text, target)
    attempt(desk.accept())
    waiting = desk.accept()
    half_open()
    real = circuit.try_acquire

    def admit_then_stop(*args: object, **kwargs: object) -> circuit.Admitted:
        stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(circuit, "try_acquire", admit_then_stop)
    assert attempt(waiting).detail == "SYSTEM_STOPPED"
    assert [seen.path for seen in target.seen] == ["/orders"]


@pytest.mark.parametrize("failure", [OperationalError, InterfaceError, ZeroDivisionError])
def test_a_question_that_fails_leaves_no_doubt_of_a_call_that_was_never_made(
    monkeypatch: pytest.MonkeyPatch, sick: Sick, target: misbehaving_targets.StandIn, failure: type[Exception]
) -> None:
    """Its first bytes have left when the gate's commit fails, but a question has no effect."""
    text = booking_targets.pack(on_unknown="person").replace("refuses: []", "refuses: [], health: /health")
    desk = open_desk(monkeypatch, text, target)
    attempt(desk.accept())
    waiting = desk.accept()
    half_open()
    sick.status = 204
    real, fails = calling.gate, [failure("the commit was lost")]

    @contextmanager
    def gate(claim: Claimed) -> Iterator[None]:
        with real(claim):
            yield
        for error in fails:
            raise error

    monkeypatch.setattr(calling, "gate", gate)
    held = attempt(waiting)
    why = circuit.CIRCUIT_OPEN if failure is ZeroDivisionError else call_gate.DATABASE_BUSY
    assert (held.status, held.called, held.detail) == (AttemptStatus.HELD, False, why)
    assert sweeper.expire_all_leases() == 0
    assert Attempt.objects.get(intent=waiting).state == AttemptState.HELD
    assert trading_desk.states(waiting) == (IntentState.PENDING, FlowState.ACCEPTED)
    # The caller did not wait for an answer, so the target may see the question later.
    until(lambda: [seen.path for seen in target.seen] == ["/orders", "/health"])

    fails.clear()
    half_open()
    attempt(waiting)
    assert [seen.path for seen in target.seen][2:] == ["/health", "/orders"]


def test_a_sick_target_keeps_no_doubt_from_people(
    monkeypatch: pytest.MonkeyPatch, sick: Sick, target: misbehaving_targets.StandIn
) -> None:
    text = booking_targets.pack(on_unknown="probe").replace("refuses: []", "refuses: [], health: /health")
    intent_id = open_desk(monkeypatch, text, target).accept()
    assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
    Intent.objects.update(valid_until=clock.now() - timedelta(days=1))
    found = []
    for _ in range(3):
        half_open()
        found.append(attempt(intent_id).status)
    assert found == [AttemptStatus.HELD, AttemptStatus.HELD, AttemptStatus.WITH_PERSON]
    assert {seen.path for seen in target.seen[1:]} == {"/health"}
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert Escalation.objects.get().reason == "IN_DOUBT"
    assert Circuit.objects.get().openings == 4


def test_a_sick_target_keeps_no_step_half_done_for_ever(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW, settings.DIR_CIRCUIT_FAILURES = ["127.0.0.1"], 1
    text = fake_target.pack().replace("refuses: [503]", "refuses: [503], health: /health")
    monkeypatch.setattr(trading_desk, "PACK", text)
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        attempt(intent_id)
        book.faults["/pay"], book.faults["/reserve/undo"] = [fake_target.REFUSE], [fake_target.BUSY]
        assert attempt(intent_id).status is AttemptStatus.TURNED_BACK
        assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
        found = []
        for _ in range(3):
            half_open()
            found.append(attempt(intent_id).status)
        assert found == [AttemptStatus.HELD, AttemptStatus.HELD, AttemptStatus.WITH_PERSON]
        assert Escalation.objects.get().reason == "COMPENSATION_FAILED"
        assert book.order == ["/reserve"]
    assert ledger_tampering.differences() == []
