"""A receipt that comes after the lease has ended holds against everything that would follow from it."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from escalations import left_calls
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.receipt import CallResult
from runtime.contracts.states import Effect, FlowState, IntentState
from runtime.core import clock, transactions
from runtime.execution.services import calling, claiming, recording
from runtime.execution.services.claiming import Claimed
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.flows.queries import calls_in_doubt
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.resources.models import Reservation
from tests.support import booking_targets, factories, fake_target, ledger_tampering, trading_desk
from tests.support.booking_targets import Bank, attempt
from tests.support.fake_target import Book

pytestmark = pytest.mark.django_db
NOTHING_KNOWN = "outcome.error_category == 'NOT_HAPPENED'"
REFUSED = "outcome.error_category == 'TARGET_REFUSED'"
CLAIMS = "    claims: [{resource: units, amount: params.quantity}]\n    effect:"
UNITS = "resources: [{name: units, capacity: 10, unit: units}]\nfacts:"


@pytest.fixture
def bank(settings: Settings) -> Iterator[Bank]:
    """A target without a memory for keys. In the end every row is what the ledger says."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with booking_targets.opened(knows_keys=False) as opened:
        yield opened
    assert ledger_tampering.differences() == []


def open_desk(bank: Bank, monkeypatch: pytest.MonkeyPatch, *routes: str) -> trading_desk.Desk:
    """A desk whose kind asks its target what became of a call, and then follows these routes."""
    text = booking_targets.pack(on_unknown="probe", routes=f"[{', '.join(routes)}]")
    monkeypatch.setattr(trading_desk, "PACK", text.replace("    effect:", CLAIMS).replace("facts:", UNITS, 1))
    return trading_desk.open_desk(base_url=bank.base_url)


def route(when: str, action: str) -> str:
    return f'{{when: "{when}", action: {action}}}'


def call(intent_id: UUID) -> tuple[Claimed, CallResult]:
    """A call whose worker does not report before its lease ends."""
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now())
    claim = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner=trading_desk.OWNER))
    assert isinstance(claim, Claimed), claim
    result = calling.call(claim, lease_left_s=30.0)
    assert sweeper.expire_all_leases() == 1
    return claim, result


def report(late: tuple[Claimed, CallResult]) -> None:
    """It reports after all."""
    claim, result = late
    assert isinstance(
        transactions.retry_on_conflict(lambda: recording.record(claim, result, jitter=0.5)), recording.TooLate
    )


@pytest.mark.parametrize("action", ["CLOSE", "FALL_BACK, step: spare", "RETRY_LATER"])
def test_no_route_follows_a_probe_that_finds_nothing_of_what_a_receipt_has_shown(
    action: str, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = open_desk(bank, monkeypatch, route(NOTHING_KNOWN, action)).accept()
    report(call(intent_id))
    booked = dict(bank.effects)
    bank.effects.clear()  # what answers the question lags behind
    assert attempt(intent_id).status == "WITH_PERSON"
    bank.effects.update(booked)
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert Attempt.objects.get(number=1).effect == Effect.HAPPENED
    assert Escalation.objects.get().reason == "IN_DOUBT"
    assert (bank.calls, bank.total) == (1, 1)
    assert Reservation.objects.get().state == "PINNED"


def fall_back(bank: Bank, desk: trading_desk.Desk) -> tuple[UUID, tuple[Claimed, CallResult]]:
    """A call of which its target says that it knows nothing, so that another step is to run."""
    intent_id = desk.accept()
    late = call(intent_id)
    booked = dict(bank.effects)
    bank.effects.clear()
    assert attempt(intent_id).status == "FELL_BACK"
    bank.effects.update(booked)
    return intent_id, late


def test_nothing_runs_in_place_of_a_step_whose_receipt_came(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(bank, monkeypatch, route(NOTHING_KNOWN, "FALL_BACK, step: spare"))
    intent_id, late = fall_back(bank, desk)
    report(late)
    assert attempt(intent_id).status == "BLOCKED"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert bank.total == 1


def test_a_flow_closed_by_a_route_frees_nothing_that_a_receipt_has_shown_to_stand(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = (route(NOTHING_KNOWN, "FALL_BACK, step: spare"), route(REFUSED, "CLOSE"))
    intent_id, late = fall_back(bank, open_desk(bank, monkeypatch, *routes))
    bank.refusals = [422]
    now = clock.now()
    Attempt.objects.update(started_at=now - timedelta(seconds=3600))
    claim = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner=trading_desk.OWNER))
    assert isinstance(claim, Claimed), claim
    report(late)
    result = calling.call(claim, lease_left_s=30.0)
    transactions.retry_on_conflict(lambda: recording.record(claim, result, jitter=0.5))
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.CLOSED)
    assert Reservation.objects.get().state == "COMMITTED"
    told = [body for kind, body in trading_desk.told(intent_id) if kind == "EXECUTION_OUTCOME"]
    assert [body["effect"] for body in told] == ["HAPPENED"]


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    """A target of three steps. In the end every row is what the ledger says."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened(knows_keys=False) as opened:
        yield opened
        opened.check()
    assert ledger_tampering.differences() == []


def walk_to(book: Book, step: str) -> tuple[UUID, tuple[Claimed, CallResult]]:
    """An intent whose call of this step was made by a worker that does not report in time."""
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept(window_s=3600)
    for _ in range(fake_target.STEPS.index(step)):
        assert fake_target.attempt(intent_id).status == "ADVANCED"
    return intent_id, call(intent_id)


def abort(effect: Effect | None, *, by: str = "olivia", why: str = factories.JUSTIFICATION) -> None:
    asked = Escalation.objects.get(state="OPEN")
    person = factories.user(by)
    answer = factories.decide(asked, person, Action.ABORT, effect=effect, justification=why)
    assert isinstance(answer, deciding.DecisionResult), answer


def ended(intent_id: UUID) -> tuple[str, str, str, str]:
    outcome = Outcome.objects.get(pk=intent_id)
    told = [body for kind, body in trading_desk.told(intent_id) if kind == "EXECUTION_OUTCOME"]
    assert len(told) == 1
    return (
        outcome.status,
        told[0]["effect"],
        trading_desk.flow_of(intent_id).state,
        Agent.objects.get().status,
    )


@pytest.mark.parametrize("effect", [None, Effect.UNKNOWN, Effect.HAPPENED])
@pytest.mark.parametrize("step", ["reserve", "pay"])
def test_who_gives_up_leaves_nothing_standing_that_a_receipt_has_shown(
    step: str, effect: Effect | None, book: Book
) -> None:
    intent_id, late = walk_to(book, step)
    report(late)
    abort(effect)
    assert fake_target.walk(intent_id)[-1] == "COMPENSATED"
    done = [f"/{name}" for name in fake_target.STEPS[: fake_target.STEPS.index(step) + 1]]
    assert book.order == [*done, *(f"{path}/undo" for path in reversed(done))]
    assert ended(intent_id) == ("COMPENSATED", "NOT_HAPPENED", "ABORTED", "ACTIVE")


def test_what_has_no_way_back_is_told_as_standing(book: Book) -> None:
    intent_id, late = walk_to(book, "ship")
    report(late)
    abort(None)
    fake_target.walk(intent_id)
    assert book.order == ["/reserve", "/pay", "/ship", "/pay/undo", "/reserve/undo"]
    assert ended(intent_id) == ("COMPENSATED", "HAPPENED", "ABORTED", "ACTIVE")


def test_a_receipt_that_comes_on_the_way_back_is_undone_as_well(book: Book) -> None:
    intent_id, late = walk_to(book, "pay")
    abort(None)
    report(late)
    assert fake_target.walk(intent_id)[-1] == "COMPENSATED"
    assert sorted(book.order) == ["/pay", "/pay/undo", "/reserve", "/reserve/undo"]
    assert ended(intent_id) == ("COMPENSATED", "NOT_HAPPENED", "ABORTED", "ACTIVE")


def test_what_was_stated_not_to_have_happened_is_left_to_who_sees_both(book: Book) -> None:
    intent_id, late = walk_to(book, "pay")
    abort(Effect.NOT_HAPPENED)
    report(late)
    fake_target.walk(intent_id)
    assert "/pay/undo" not in book.order
    assert calls_in_doubt.count_contradicted(tenant=trading_desk.TENANT) == 1


def test_the_page_names_who_stated_it_and_not_who_decided_last(book: Book) -> None:
    intent_id, late = walk_to(book, "pay")
    abort(Effect.NOT_HAPPENED)
    book.faults["/reserve/undo"] = [fake_target.REFUSE]
    fake_target.walk(intent_id)
    report(late)
    said = ("olivia", factories.JUSTIFICATION)
    for _ in ("while somebody is asked about the undo", "once Otto has given it up"):
        (left,) = left_calls.list_calls(tenant=trading_desk.TENANT)
        assert left.contradiction is not None
        assert (left.contradiction.stated_by, left.contradiction.reason) == said
        if Escalation.objects.filter(state="OPEN").exists():
            abort(None, by="otto", why="Nobody can undo it.")


def test_giving_an_undo_up_says_nothing_of_what_was_left_in_doubt_before_it(book: Book) -> None:
    intent_id, _ = walk_to(book, "pay")
    abort(None)
    late = call(intent_id)
    report(late)
    abort(Effect.HAPPENED, by="otto")
    pay, undo = Attempt.objects.filter(state="UNKNOWN").order_by("number")
    assert (pay.step, pay.effect) == ("pay", "")
    assert (undo.direction, undo.effect) == ("COMPENSATE", "HAPPENED")
