"""Many workers, people and sweepers on walks of several steps: one effect each, and no agent left locked."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from runtime.contracts.states import AgentStatus, FlowState, IntentState
from runtime.core import clock, transactions
from runtime.execution.services import attempting
from runtime.flows.models import Intent
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.registry.services import agents
from tests.support import fake_target, trading_desk
from tests.support.fake_target import BACK, FORWARD, LOSE, REFUSE, Book
from tests.support.racing import race

WORKERS = 6
ROUNDS = 60


@pytest.fixture
def book(real_db: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    """A target that does twice what is asked twice."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened(knows_keys=False) as opened:
        yield opened
        opened.check()
    assert isinstance(verify_database(), Whole)


def work(*intent_ids: UUID, number: int) -> None:
    """Attempt until all have ended."""
    for _ in range(ROUNDS):
        for intent_id in intent_ids:
            try:
                attempting.attempt(intent_id, owner=f"worker-{number}")
            except transactions.BusyError:
                continue
        if all(is_over(intent_id) for intent_id in intent_ids):
            return


def is_over(intent_id: UUID) -> bool:
    return trading_desk.intent(intent_id).finished_at is not None


@pytest.mark.parametrize("fails", [False, True])
def test_six_workers_on_one_walk_make_each_call_once(fails: bool, book: Book) -> None:
    if fails:
        book.faults["/ship"] = [REFUSE]
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    race(WORKERS, lambda number: work(intent_id, number=number))
    work(intent_id, number=WORKERS)
    assert book.order == ([*FORWARD[:2], *reversed(BACK)] if fails else list(FORWARD))
    ends = (IntentState.FAILED, FlowState.ABORTED) if fails else (IntentState.DONE, FlowState.CLOSED)
    assert trading_desk.states(intent_id) == ends
    assert Agent.objects.get().status == AgentStatus.ACTIVE


def test_walks_of_one_agent_that_all_turn_back_leave_it_unlocked(book: Book) -> None:
    book.faults["/pay"] = [REFUSE]
    desk = trading_desk.open_desk(base_url=book.base_url)
    waiting = [desk.accept() for _ in range(4)]
    race(WORKERS, lambda number: work(*waiting, number=number))
    # A forward call of a locked agent is held: the first walks lock it, the others wait for them.
    for _ in waiting:
        work(*waiting, number=WORKERS)
    assert {trading_desk.states(intent_id) for intent_id in waiting} == {
        (IntentState.FAILED, FlowState.ABORTED)
    }
    assert sorted(book.order) == sorted(["/reserve", "/reserve/undo"] * 4)
    agent = Agent.objects.get()
    assert (agent.status, agent.locked_from) == (AgentStatus.ACTIVE, "")


def test_a_person_and_a_convergence_never_undo_each_other(book: Book) -> None:
    desk = trading_desk.open_desk(base_url=book.base_url)
    for _ in range(4):
        agents.set_status(
            tenant=trading_desk.TENANT,
            agent_id=trading_desk.AGENT,
            status=AgentStatus.ACTIVE,
            reason="",
            actor="user:1",
        )
        book.faults["/pay"] = [REFUSE]
        intent_id = desk.accept()

        def one(number: int, intent_id: UUID = intent_id) -> None:
            if number:
                work(intent_id, number=number)
            else:
                agents.set_status(
                    tenant=trading_desk.TENANT,
                    agent_id=trading_desk.AGENT,
                    status=AgentStatus.SUSPENDED,
                    reason="looked at",
                    actor="user:1",
                )

        race(3, one)
        row = Agent.objects.get()
        assert (row.status, row.status_reason) == (AgentStatus.SUSPENDED, "looked at")
        Agent.objects.update(status=AgentStatus.ACTIVE)
        work(intent_id, number=9)
        assert trading_desk.states(intent_id)[1] is FlowState.ABORTED
        Agent.objects.update(status=AgentStatus.SUSPENDED)


def test_sweepers_and_workers_on_lost_answers_end_in_one_effect_each(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown="probe"))
    for path in FORWARD:
        book.faults[path] = [LOSE, ""]
    desk = trading_desk.open_desk(base_url=book.base_url)
    intent_id = desk.accept()

    def one(number: int) -> None:
        for _ in range(ROUNDS):
            Intent.objects.filter(pk=intent_id, state=IntentState.PENDING).update(next_at=clock.now())
            if number == 0:
                sweeper.sweep()
            else:
                work(intent_id, number=number)
            if is_over(intent_id):
                return

    race(3, one)
    assert book.order == list(FORWARD)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
