"""Levels of autonomy under races: one lowering for one score, and one winner where a person raises it."""

import pytest
from django.contrib.auth.models import User

from audit import actors
from runtime.contracts.problem import Problem
from runtime.contracts.states import AutonomyLevel
from runtime.core import transactions
from runtime.maintenance.services import autonomy_rounds, sweeper
from runtime.registry.models import Agent
from runtime.registry.queries import autonomy_levels
from runtime.registry.services import autonomy
from tests.support import factories, racing, risky_agent

pytestmark = pytest.mark.usefixtures("real_db")
NEVER = {"supervised_at": 101, "read_only_at": 101}
AUTONOMOUS, SUPERVISED, READ_ONLY = AutonomyLevel


def looser_first(rejections: int) -> factories.Desk:
    """An agent with so many rejections that its rule did not count; from now on it counts them."""
    desk = risky_agent.desk(**NEVER)
    risky_agent.reject(desk, rejections)
    assert risky_agent.changes() == []
    factories.change_manifest("trader", autonomy=risky_agent.RULE)
    return desk


def lower(desk: factories.Desk) -> bool:
    return transactions.retry_on_conflict(lambda: autonomy_rounds.lower_one(desk.agent.pk))


def raised(who: User, shown: str) -> Agent | Problem:
    return autonomy.raise_level(
        tenant="default",
        agent_id="trader",
        level=AUTONOMOUS,
        shown=shown,
        reason="Its prompt was mended.",
        actor=actors.user(who.pk),
    )


def test_two_workers_lower_an_agent_once() -> None:
    desk = looser_first(2)
    answers = racing.race(2, lambda number: lower(desk))
    assert sorted(answers) == [False, True]
    assert [change["to_level"] for change in risky_agent.changes()] == ["SUPERVISED"]
    assert risky_agent.level(desk) is SUPERVISED
    assert risky_agent.broken() == []


def test_sweepers_beside_proposals_lower_step_by_step() -> None:
    desk = looser_first(2)

    def work(number: int) -> None:
        if number % 2:
            lower(desk)
        else:
            risky_agent.reject(desk)

    racing.race(4, work)
    levels = [(change["from_level"], change["to_level"]) for change in risky_agent.changes()]
    # Never up, never the same again, and no gap between two changes.
    assert levels in (
        [("AUTONOMOUS", "SUPERVISED"), ("SUPERVISED", "READ_ONLY")],
        [("AUTONOMOUS", "READ_ONLY")],
    )
    assert risky_agent.level(desk) is READ_ONLY
    assert risky_agent.broken() == []


def test_a_raise_and_a_lowering_have_one_winner() -> None:
    desk = risky_agent.desk()
    ada, _ = factories.user("ada", "admin"), factories.user("bob", "admin")
    risky_agent.reject(desk, 3)
    assert risky_agent.level(desk) is SUPERVISED
    factories.change_manifest("trader", autonomy={**risky_agent.RULE, "read_only_at": 30})
    shown = autonomy_levels.get_recorded(desk.again()).digest
    answers = racing.race(2, lambda number: lower(desk) if number else raised(ada, shown))
    last = risky_agent.changes()[-1]
    if isinstance(answers[0], Agent):
        # What was counted until then does not count again: there was nothing left to lower it for.
        assert answers[1] is False
        assert (last["to_level"], last["from_level"]) == ("AUTONOMOUS", "SUPERVISED")
    else:
        assert isinstance(answers[0], Problem)
        assert (answers[0].code, answers[1]) == ("AUTONOMY_MOVED", True)
        assert (last["to_level"], last["from_level"]) == ("READ_ONLY", "SUPERVISED")
    assert len(risky_agent.changes()) == 2
    assert risky_agent.level(desk) == last["to_level"]
    assert risky_agent.broken() == []


def test_two_admins_raise_it_once() -> None:
    desk = risky_agent.desk()
    people = [factories.user(name, "admin") for name in ("ada", "bob")]
    risky_agent.reject(desk, 2)
    shown = autonomy_levels.get_recorded(desk.again()).digest
    answers = racing.race(2, lambda number: raised(people[number], shown))
    assert sum(isinstance(answer, Agent) for answer in answers) == 1
    assert [answer.code for answer in answers if isinstance(answer, Problem)] == ["AUTONOMY_MOVED"]


def test_whole_sweeps_at_once_lower_an_agent_once() -> None:
    desk = risky_agent.desk(**NEVER, open_escalations={"points": 10, "most": 100})
    desk.escalate()
    desk.escalate()
    factories.change_manifest(
        "trader", autonomy={**risky_agent.RULE, "open_escalations": {"points": 10, "most": 100}}
    )
    racing.race(2, lambda number: sweeper.sweep())
    assert [change["to_level"] for change in risky_agent.changes()] == ["SUPERVISED"]
