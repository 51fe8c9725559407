"""Rules with real threads and commits: one incident per crossing, whoever walks and whatever crashes."""

from typing import Any

import pytest

from runtime.incidents.models import Incident, RuleCursor
from runtime.incidents.services import rule_rounds
from runtime.maintenance.services import sealing
from tests.support import incident_story, ledger_tampering, racing

WALKERS, WRITERS, ROUNDS = 3, 2, 10


def sums() -> tuple[int, int]:
    """How many incidents there are, and how many entries they have counted in all."""
    return Incident.objects.count(), sum(Incident.objects.values_list("sightings", flat=True))


def test_walkers_beside_writers_open_one_incident_and_count_every_entry_once(real_db: str) -> None:
    incident_story.activate(incident_story.rule(times=5))

    def work(number: int) -> int:
        opened = 0
        for _ in range(ROUNDS):
            if number < WRITERS:
                incident_story.refuse()
            else:
                sealing.seal_now()
                opened += rule_rounds.run()
        return opened

    opened = sum(racing.race(WALKERS + WRITERS, work)) + incident_story.walk()
    assert opened == 1
    assert sums() == (1, WRITERS * ROUNDS)
    assert ledger_tampering.differences() == []


def test_two_that_walk_the_same_leaves_open_one(real_db: str) -> None:
    incident_story.activate(incident_story.rule(times=3))
    incident_story.refuse(times=3)
    sealing.seal_now()
    assert sorted(racing.race(2, lambda number: rule_rounds.run())) == [0, 1]
    assert sums() == (1, 3)


@pytest.mark.parametrize("point", ["_open", "_join"])
def test_a_crash_between_leaves_nothing_and_the_next_round_does_it_once(
    real_db: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident_story.activate(incident_story.rule(times=2))
    if point == "_join":
        incident_story.refuse(times=2)
        assert incident_story.walk() == 1
    incident_story.refuse(times=2)
    sealing.seal_now()
    before, stood = sums(), RuleCursor.objects.get().next_leaf
    real = getattr(rule_rounds, point)

    def crash(*args: Any) -> Any:
        real(*args)
        raise RuntimeError("the process died")

    with monkeypatch.context() as patch:
        patch.setattr(rule_rounds, point, crash)
        with pytest.raises(RuntimeError, match="died"):
            rule_rounds.run()
    assert (sums(), RuleCursor.objects.get().next_leaf) == (before, stood)
    rule_rounds.run()
    assert sums() == (1, 4 if point == "_join" else 2)
    assert rule_rounds.run() == 0
    assert ledger_tampering.differences() == []
