"""Many people, workers and sweepers on one human step: one task, one answer, one way on."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, FlowState, IntentState, TaskState
from runtime.core import clock, transactions
from runtime.execution.models import HumanTask
from runtime.execution.services import attempting, human_steps
from runtime.registry.models import Agent
from tests.support import fake_target, human_tasks, trading_desk
from tests.support.racing import race

RACERS = 6


@pytest.fixture(autouse=True)
def _checked(real_db: str, settings: Settings) -> Iterator[None]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    yield
    assert isinstance(verify_database(), Whole)


def open_desk(monkeypatch: pytest.MonkeyPatch) -> UUID:
    monkeypatch.setattr(trading_desk, "PACK", human_tasks.pack("approve", "order"))
    return trading_desk.open_desk().accept()


def test_workers_open_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = open_desk(monkeypatch)
    race(RACERS, lambda number: attempting.attempt(intent_id, owner=f"worker-{number}").status)
    assert HumanTask.objects.count() == 1
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)


def test_of_people_who_answer_at_once_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = open_desk(monkeypatch)
    human_tasks.attempt(intent_id)
    asked, people = human_tasks.task(intent_id), [human_tasks.person(f"p{at}") for at in range(RACERS)]
    answered = race(
        RACERS, lambda number: human_tasks.answer(asked, people[number], approved=True, price=number + 1)
    )
    refused = [each for each in answered if isinstance(each, Problem)]
    assert [each.code for each in refused] == ["TASK_CLOSED"] * (RACERS - 1)
    assert human_tasks.task(intent_id).state == TaskState.ANSWERED
    assert trading_desk.intent(intent_id).position == 1


def test_an_answer_and_the_deadline_are_never_both(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = open_desk(monkeypatch)
    human_tasks.attempt(intent_id)
    asked, account = human_tasks.task(intent_id), human_tasks.person()

    def work(number: int) -> object:
        if number % 2:
            return human_tasks.answer(asked, account)
        return human_steps.expire(asked.pk, even_in_time=True)

    def in_transaction(number: int) -> object:
        return transactions.retry_on_conflict(lambda: work(number)) if not number % 2 else work(number)

    race(RACERS, in_transaction)
    task = HumanTask.objects.get()
    if task.state == TaskState.ANSWERED:
        assert trading_desk.intent(intent_id).position == 1
        assert Escalation.objects.count() == 0
    else:
        assert (task.state, bytes(task.answer)) == (TaskState.OVERDUE, b"")
        assert trading_desk.intent(intent_id).state == IntentState.WITH_PERSON
        assert Escalation.objects.count() == 1


def test_workers_that_find_an_invariant_violated_ask_one_person(monkeypatch: pytest.MonkeyPatch) -> None:
    text = fake_target.pack().replace(
        "\n    impact:", "\n    safety_assertions: [{invariant_id: calm}]\n    impact:", 1
    )
    text = text.replace("depends_on: [price.ABC,", "depends_on: [{fact: price.ABC, unless: 'true'},")
    asked = '{invariant_id: calm, require: "context.facts.price.ABC < 1000", at: [BETWEEN_STEPS]}'
    text += f"\ninvariants: [{asked}]\n"
    monkeypatch.setattr(trading_desk, "PACK", text)
    with fake_target.opened(knows_keys=False) as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        fake_target.attempt(intent_id)
        trading_desk.write_fact("price.ABC", 5000)
        race(RACERS, lambda number: attempting.attempt(intent_id, owner=f"worker-{number}").status)
        assert book.order == ["/reserve"]
    assert Escalation.objects.count() == 1
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert Agent.objects.get().status == AgentStatus.LOCKED
    assert clock.now() - trading_desk.intent(intent_id).created_at < timedelta(hours=1)
