"""A parent that ends stops its open children, whatever races with it; what is under way is left to finish."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.contracts.states import ENDED, AttemptState, FlowState, IntentState
from runtime.execution.services import attempting
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.kernel import flow_tree
from tests.support import misbehaving_targets, racing, trading_desk
from tests.support.wait_until import until


@pytest.fixture
def held(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1"}'), is_held=True
    ) as running:
        yield running


def attempt(intent_id: UUID, owner: str = "worker") -> attempting.AttemptStatus:
    return attempting.attempt(intent_id, owner=owner).status


def close(desk: trading_desk.Desk, dfid: UUID) -> None:
    answer = flows.close(agent=desk.agent, dfid=dfid, reason="over")
    assert not isinstance(answer, Problem), answer


def test_parent_closed_while_a_child_executes(real_db: str, held: misbehaving_targets.StandIn) -> None:
    """The call is out: the child keeps its flow, closes by its outcome, and its reservation story is true."""
    desk = trading_desk.open_desk(base_url=held.base_url)
    parent = desk.open()
    running, waiting = desk.accept(parent=parent), desk.accept(parent=parent)
    below = desk.open(trading_desk.flow_of(running).dfid)

    def call() -> attempting.AttemptStatus:
        try:
            return attempt(running)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        called = pool.submit(call)
        until(lambda: len(held.seen) == 1)
        close(desk, parent)
        assert trading_desk.states(running) == (IntentState.CLAIMED, FlowState.EXECUTING)
        assert trading_desk.states(waiting) == (IntentState.CANCELLED, FlowState.ABORTED)
        assert Flow.objects.get(pk=below).reason == "PARENT_ENDED"
        refused = flows.open_flow(
            agent=desk.agent, trigger="x", parent_dfid=trading_desk.flow_of(running).dfid
        )
        assert isinstance(refused, Problem)
        assert refused.code == "FLOW_NOT_OPEN"
        held.release.set()
        assert called.result(timeout=60) is attempting.AttemptStatus.SUCCEEDED
    assert trading_desk.states(running) == (IntentState.DONE, FlowState.CLOSED)
    assert attempt(waiting) is attempting.AttemptStatus.ENDED
    assert len(held.seen) == 1
    assert isinstance(verify_database(), Whole)


def test_a_closing_parent_and_workers_never_both_win(real_db: str, held: misbehaving_targets.StandIn) -> None:
    held.release.set()
    desk = trading_desk.open_desk(base_url=held.base_url)
    for _ in range(3):
        held.seen.clear()
        parent = desk.open()
        intents = [desk.accept(parent=parent) for _ in range(4)]

        def work(number: int, intents: list[UUID] = intents, parent: UUID = parent) -> None:
            if number == 0:
                close(desk, parent)
            else:
                attempt(intents[number - 1], f"worker-{number}")

        racing.race(5, work)
        ends = [trading_desk.states(intent_id) for intent_id in intents]
        done, cancelled = (IntentState.DONE, FlowState.CLOSED), (IntentState.CANCELLED, FlowState.ABORTED)
        assert set(ends) <= {done, cancelled}, ends
        assert ends.count(done) == len(held.seen)
        for intent_id, end in zip(intents, ends, strict=True):
            assert trading_desk.attempts(intent_id) == ([AttemptState.SUCCEEDED] if end == done else [])
    assert isinstance(verify_database(), Whole)


def test_a_child_opened_while_its_parent_closes_does_not_outlive_it(real_db: str) -> None:
    desk = trading_desk.open_desk()
    for _ in range(3):
        parent = desk.open()
        child = desk.open(parent)

        def work(number: int, parent: UUID = parent, child: UUID = child) -> object:
            if number == 0:
                return flows.close(agent=desk.agent, dfid=parent, reason="over")
            under = parent if number % 2 else child
            return flows.open_flow(agent=desk.agent, trigger="x", parent_dfid=under)

        racing.race(8, work)
        family = Flow.objects.filter(root=parent)
        assert not family.exclude(state__in=ENDED).exists()
        assert set(family.values_list("reason", flat=True)) == {"PARENT_ENDED"}
    assert isinstance(verify_database(), Whole)


def test_forty_racers_open_twenty_children(real_db: str) -> None:
    desk = trading_desk.open_desk()
    parent = desk.open()
    answers = racing.race(40, lambda _: flows.open_flow(agent=desk.agent, trigger="x", parent_dfid=parent))
    opened = [answer for answer in answers if not isinstance(answer, Problem)]
    assert len(opened) == flow_tree.MAX_OPEN_CHILDREN
    assert {answer.code for answer in answers if isinstance(answer, Problem)} == {"TOO_MANY_CHILDREN"}
    assert Flow.objects.filter(parent=parent).count() == flow_tree.MAX_OPEN_CHILDREN
    assert Flow.objects.get(pk=parent).children_opened == flow_tree.MAX_OPEN_CHILDREN


def test_closings_at_every_level_at_once_end_each_flow_once(real_db: str) -> None:
    desk = trading_desk.open_desk()
    line = [desk.open()]
    for _ in range(flow_tree.MAX_DEPTH):
        line.append(desk.open(line[-1]))
    racing.race(len(line), lambda number: flows.close(agent=desk.agent, dfid=line[number], reason="over"))
    for dfid in line:
        flow = Flow.objects.get(pk=dfid)
        assert flow.state in ENDED
        assert flow.feedback.count() == 1
    assert isinstance(verify_database(), Whole)
