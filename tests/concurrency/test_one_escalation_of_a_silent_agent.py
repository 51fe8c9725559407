"""Sweepers, the agent's own call and a person meet over one silence: it is asked of people once."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from audit.verification.verify import Whole, verify_database
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding
from runtime.core import clock, transactions
from runtime.flows.models import Flow
from runtime.maintenance.services import sweeper, watchdog
from runtime.registry.models import Agent
from tests.support import factories, fallen_silent, racing

SWEEPERS = 8


@pytest.fixture
def desk(real_db: str, monkeypatch: pytest.MonkeyPatch) -> factories.Desk:
    monkeypatch.setattr(watchdog, "_after_pk", 0)
    return fallen_silent.desk()


def test_many_sweepers_open_one_escalation(desk: factories.Desk) -> None:
    fallen_silent.hush(desk)
    (due,) = watchdog.find_silent_agents(at=clock.now())
    mended = racing.race(SWEEPERS, lambda _: transactions.retry_on_conflict(lambda: watchdog.reconcile(due)))
    assert Counter(mended) == {True: 1, False: SWEEPERS - 1}
    assert Escalation.objects.filter(state="OPEN").count() == Flow.objects.count() == 1
    assert isinstance(verify_database(), Whole)


def test_an_agent_that_comes_back_at_that_moment_leaves_nothing_open(desk: factories.Desk) -> None:
    fallen_silent.hush(desk)
    (due,) = watchdog.find_silent_agents(at=clock.now())
    speak = partial(Agent.objects.filter(pk=desk.agent.pk).update, last_seen_at=clock.now())
    works: list[Callable[[], int]] = [
        partial(transactions.retry_on_conflict, partial(watchdog.reconcile, due)),
        speak,
    ]
    answers = racing.all_at_once(works)
    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    sweeper.sweep()
    assert not Escalation.objects.filter(state="OPEN").exists()
    assert not Flow.objects.exclude(state="CLOSED").exists()
    assert isinstance(verify_database(), Whole)


def test_two_people_and_a_sweeper_end_it_once(desk: factories.Desk) -> None:
    people = [factories.user(name) for name in ("olivia", "oscar")]
    escalation = fallen_silent.called(desk)
    acts = (Action.ACKNOWLEDGE, Action.STOP_AGENT)

    def act(number: int) -> object:
        if number == len(acts):
            return sweeper.sweep()
        return factories.decide(escalation, people[number], acts[number])

    answers = racing.race(len(acts) + 1, act)
    assert sum(isinstance(answer, deciding.DecisionResult) for answer in answers) == 1, answers
    assert Decision.objects.count() == 1
    assert Escalation.objects.get().state == "RESOLVED"
    stopped = desk.again().stopped_at is not None
    assert stopped is (Decision.objects.get().action == "STOP_AGENT")
    assert isinstance(verify_database(), Whole)
