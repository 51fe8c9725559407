"""Workers, cancels, hard stops and the sweeper at once: whoever wins, no reservation is left behind."""

from datetime import timedelta
from uuid import UUID

import pytest

from audit.verification.verify import Whole, verify_database
from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.receipt import CallResult, FailureClass
from runtime.contracts.states import ENDED, FlowState, IntentState, ReservationState
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Flow, Intent
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from runtime.resources.models import Reservation, Resource
from tests.support import racing, resources_pack, trading_desk

FLOWS = 8
RESULTS: dict[str, CallResult] = {
    "done": resources_pack.DONE,
    "refused": resources_pack.failure(FailureClass.TERMINAL),
    "doubtful": resources_pack.failure(FailureClass.UNKNOWN),
}
ROOMY = "{name: units, capacity: 10000, unit: units}"


@pytest.fixture
def waiting(real_db: str, monkeypatch: pytest.MonkeyPatch) -> tuple[trading_desk.Desk, list[UUID]]:
    """A desk with accepted proposals whose leases have just ended."""
    text = resources_pack.pack().replace("{name: units, capacity: 100, unit: units}", ROOMY)
    monkeypatch.setattr(trading_desk, "PACK", text)
    desk = trading_desk.open_desk()
    intents = [desk.accept() for _ in range(FLOWS)]
    Reservation.objects.update(lease_until=clock.now() - timedelta(seconds=1))
    return desk, intents


def befall(desk: trading_desk.Desk, intents: list[UUID], number: int) -> None:
    """One of four fates for every flow, begun at another place by each racer."""
    for intent_id in intents[number % FLOWS :] + intents[: number % FLOWS]:
        dfid = trading_desk.intent(intent_id).flow_id
        match number % 4:
            case 0:
                attempting.attempt(intent_id, owner=f"worker-{number}")
            case 1:
                flows.cancel(agent=desk.agent, dfid=dfid, reason="Enough")
            case 2:
                usage.report(agent=desk.agent, dfid=dfid, asked=api_schemas.UsageRequest(tokens=600))
            case _:
                sweeper.sweep()


@pytest.mark.parametrize("ending", RESULTS)
def test_whoever_wins_nothing_is_left_behind(
    waiting: tuple[trading_desk.Desk, list[UUID]], ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, intents = waiting
    resources_pack.answer_with(monkeypatch, RESULTS[ending])
    racing.race(8, lambda number: befall(desk, intents, number))
    for intent_id in intents:
        racing.patiently(lambda of=intent_id: attempting.attempt(of, owner="the last"))  # type: ignore[misc]
    resources_pack.check()
    assert not Flow.objects.exclude(state__in=[*ENDED, FlowState.ESCALATED]).exists()
    effects = Intent.objects.filter(state=IntentState.DONE).count()
    assert Resource.objects.get(name="units").committed == 60 * effects
    doubtful = Intent.objects.filter(state=IntentState.IN_DOUBT).count()
    standing = Reservation.objects.filter(state=ReservationState.PINNED, resource__name="units")
    assert standing.count() == doubtful
    assert isinstance(verify_database(), Whole)


def test_a_freed_lease_is_taken_again_by_one_of_two_claims(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = resources_pack.open_desk(monkeypatch)
    resources_pack.answer_with(monkeypatch, resources_pack.DONE)
    first = desk.accept()
    Reservation.objects.update(lease_until=clock.now() - timedelta(seconds=1))
    sweeper.sweep()
    second = desk.accept()
    Reservation.objects.filter(proposal__intent=second).update(lease_until=clock.now() - timedelta(seconds=1))
    sweeper.sweep()
    both = [first, second]
    racing.race(8, lambda number: attempting.attempt(both[number % 2], owner=f"worker-{number}"))
    states = sorted(trading_desk.intent(intent_id).state for intent_id in both)
    assert states == [IntentState.DONE, IntentState.FAILED]
    assert resources_pack.used() == (0, 60)
    resources_pack.check()


def test_the_hard_stop_and_a_claim_never_both_win(
    waiting: tuple[trading_desk.Desk, list[UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, intents = waiting
    resources_pack.answer_with(monkeypatch, resources_pack.DONE)

    def work(number: int) -> bool:
        intent_id = intents[number // 2]
        if number % 2:
            return attempting.attempt(intent_id, owner=f"worker-{number}").called
        asked = api_schemas.UsageRequest(tokens=1_001)
        answer = usage.report(agent=desk.agent, dfid=trading_desk.intent(intent_id).flow_id, asked=asked)
        return isinstance(answer, Problem) and answer.code == "BUDGET_EXCEEDED"

    called = racing.race(2 * FLOWS, work)[1::2]
    for intent_id, was_called in zip(intents, called, strict=True):
        state = trading_desk.intent(intent_id).state
        assert state == (IntentState.DONE if was_called else IntentState.CANCELLED)
    resources_pack.check()
