"""Labels under races: none that is gained at once is lost, and a person ends only what was shown."""

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.registry.queries import agent_labels as recorded_labels
from runtime.registry.services import agent_labels
from tests.support import factories, racing

pytestmark = pytest.mark.usefixtures("real_db")


def give(desk: factories.Desk, *labels: str) -> None:
    agent_labels.receive(agent=desk.agent, labels=labels, because=LabelSource.MESSAGE, source="talk")


def end(shown: str, label: str) -> Agent | Problem:
    return agent_labels.end(
        tenant="default", agent_id="trader", labels=[label], shown=shown, reason="Ours.", actor="user:1"
    )


def held(desk: factories.Desk) -> set[str]:
    return set(agent_labels.held_by(desk.again(), at=clock.now()))


def test_labels_that_come_at_once_all_stay() -> None:
    desk = factories.desk()
    names = [f"label-{number}" for number in range(6)]
    racing.race(6, lambda number: give(desk, names[number]))
    assert held(desk) == set(names)
    assert LedgerEntry.objects.filter(kind="agent:labels_changed").count() == 6
    assert findings.verify_all().findings == []


def test_a_person_ends_nothing_that_came_meanwhile() -> None:
    desk = factories.desk()
    give(desk, "untrusted")
    recorded = recorded_labels.get_recorded(desk.again())
    assert recorded is not None
    shown = recorded.digest

    def work(number: int) -> Agent | Problem | None:
        if number:
            return end(shown, "untrusted")
        give(desk, "secret")
        return None

    answers = racing.race(2, work)
    ended = [answer for answer in answers if answer is not None]
    if isinstance(ended[0], Problem):
        assert ended[0].code == "LABELS_MOVED"
        assert held(desk) == {"secret", "untrusted"}
    else:
        assert held(desk) == {"secret"}
    assert findings.verify_all().findings == []


def test_two_people_end_a_label_once() -> None:
    desk = factories.desk()
    give(desk, "untrusted")
    recorded = recorded_labels.get_recorded(desk.again())
    assert recorded is not None
    answers = racing.race(2, lambda number: end(recorded.digest, "untrusted"))
    assert sorted(isinstance(answer, Problem) for answer in answers) == [False, True]
    assert held(desk) == set()
