"""Reports, deadlines and workers on one call that a target has taken on: one result, one way on."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from uuid import UUID

import pytest
from django.db.models import F
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.callbacks import CallbackReport, Succeeded
from runtime.contracts.problem import Problem
from runtime.contracts.states import CallbackState, FlowState, IntentState
from runtime.core import transactions
from runtime.execution.models import TargetCallback
from runtime.execution.services import attempting, callback_reports, result_asking
from runtime.flows.models import Attempt, Outcome
from tests.support import asked_for_results, misbehaving_targets, reporting_target, trading_desk
from tests.support.misbehaving_targets import StandIn
from tests.support.racing import race
from tests.support.wait_until import until

RACERS = 6


@pytest.fixture(autouse=True)
def _checked(real_db: str) -> Iterator[None]:
    yield
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def target() -> Iterator[StandIn]:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(202, b"")) as running:
        yield running


@pytest.fixture
def intent_id(monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn) -> UUID:
    return reporting_target.open_desk(monkeypatch, settings, url=target.base_url).accept()


def result(number: int) -> CallbackReport:
    return CallbackReport(Succeeded(status="succeeded", receipt={"order_id": f"o{number}"}))


def test_workers_make_one_call_with_one_address(intent_id: UUID, target: StandIn) -> None:
    race(RACERS, lambda number: attempting.attempt(intent_id, owner=f"worker-{number}").status)
    assert len(target.seen) == 1
    assert TargetCallback.objects.count() == 1
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)


def test_of_results_reported_at_once_one_is_taken(intent_id: UUID, target: StandIn) -> None:
    attempting.attempt(intent_id, owner="worker")
    token = reporting_target.token_of(target)
    taken = race(RACERS, lambda number: callback_reports.take(token, result(number)))
    assert sum(answer == "taken" for answer in taken) == 1
    assert {answer.code for answer in taken if isinstance(answer, Problem)} == {"CALLBACK_CLOSED"}
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_a_result_and_the_deadline_are_never_both_followed(intent_id: UUID, target: StandIn) -> None:
    attempting.attempt(intent_id, owner="worker")
    token, pk = reporting_target.token_of(target), TargetCallback.objects.get().pk

    def work(number: int) -> object:
        if number % 2:
            return callback_reports.take(token, result(number))
        return transactions.retry_on_conflict(lambda: callback_reports.expire(pk, even_in_time=True))

    race(RACERS, work)
    assert TargetCallback.objects.get().state == CallbackState.REPORTED
    # Whichever came first: it is done, or a person is asked, who is shown that it has happened.
    if trading_desk.states(intent_id)[0] == IntentState.DONE:
        assert Escalation.objects.count() == 0
    else:
        assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
        assert Escalation.objects.count() == 1
        assert Attempt.objects.get().effect == "HAPPENED"


def test_a_result_that_races_with_the_record_of_its_202_is_taken_once(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """The target reports at once, over its own connection, while it still answers the call."""
    answered: list[object] = []

    def hasty(request: BaseHTTPRequestHandler) -> None:
        misbehaving_targets.answer(202, b"{}")(request)
        token = reporting_target.token_of(running)
        answered.append(race(2, lambda number: callback_reports.take(token, result(number))))

    with misbehaving_targets.stand_in(hasty) as running:
        desk = reporting_target.open_desk(monkeypatch, settings, url=running.base_url)
        intents = [desk.accept() for _ in range(RACERS)]
        for each in intents:
            attempting.attempt(each, owner="worker")
            until(lambda: len(answered) == len(running.seen))
    assert [trading_desk.states(each)[0] for each in intents] == [IntentState.DONE] * RACERS
    assert Outcome.objects.count() == RACERS


def test_askers_ask_once_in_a_turn_and_take_one_result(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Rounds of all workers meet on the same callbacks, and a deadline falls between question and answer."""
    with asked_for_results.opened() as warehouse:
        desk = asked_for_results.open_desk(
            monkeypatch,
            settings,
            warehouse,
            pack_text=asked_for_results.pack(follow="deadline_s: 7200, every_s: 3600"),
        )
        intents = [desk.accept() for _ in range(RACERS)]
        for each in intents:
            attempting.attempt(each, owner="worker")
        TargetCallback.objects.update(next_ask_at=F("opened_at"))
        first = TargetCallback.objects.order_by("pk").values_list("pk", flat=True)[0]

        def work(number: int) -> object:
            if number == 0:
                return transactions.retry_on_conflict(
                    lambda: callback_reports.expire(first, even_in_time=True)
                )
            return result_asking.ask_due()

        race(RACERS, work)
        # Of the first the deadline may have come before the question.
        assert len(intents) - 1 <= len(warehouse.asked) <= len(intents)
    states = [trading_desk.states(each)[0] for each in intents]
    assert states.count(IntentState.DONE) >= len(intents) - 1
    assert Outcome.objects.count() == states.count(IntentState.DONE)
