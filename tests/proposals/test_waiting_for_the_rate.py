"""An agent that comes too soon is told for how long to wait, and the wait costs it no attempt."""

from datetime import datetime, timedelta

import pytest

from audit import canonical
from runtime.core import clock
from runtime.flows.models import Feedback
from runtime.proposals.queries import verdict_replay
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


class Clock:
    """The time as the test sets it."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(clock.now())
    monkeypatch.setattr(clock, "now", made)
    return made


def desk(per_minute: int) -> factories.Desk:
    return factories.desk(
        manifest=gate_cases.manifest(proposals_per_minute=per_minute), kind=gate_cases.kind(steps=[])
    )


def test_waits_alone_never_end_a_flow(time: Clock) -> None:
    mine = desk(1)
    assert mine.propose(mine.open())["verdict"] == "ACCEPT"
    flow = mine.open()
    for _ in range(5):
        answer = mine.propose(flow)
        assert [reason["code"] for reason in answer["reasons"]] == ["RATE_LIMITED"]
        assert (answer["verdict"], answer["attempts_left"], answer["state"]) == ("REJECT", 3, "ACTIVE")
    assert flow.row().attempts_used == 0
    told = Feedback.objects.filter(flow=flow.row(), event_type="VALIDATION_FEEDBACK").order_by("seq")
    assert [canonical.decode(bytes(row.body))["retry_after_s"] for row in told] == [60] * 5
    assert verdict_replay.replay() == verdict_replay.Equal(6)


def test_another_fault_beside_it_costs_the_attempt_and_still_tells_the_wait(time: Clock) -> None:
    mine = desk(1)
    mine.propose(mine.open())
    answer = mine.propose(
        mine.open(), execution_constraints={"validity_window_sec": 30, "max_price_cents": 1}
    )
    assert {reason["code"] for reason in answer["reasons"]} == {"RATE_LIMITED", "CONSTRAINT_VIOLATED"}
    assert (answer["attempts_left"], answer["retry_after_s"]) == (2, 60)


def test_no_wait_is_told_where_none_is_needed(time: Clock) -> None:
    mine = desk(1)
    assert "retry_after_s" not in mine.propose(mine.open())


@pytest.mark.parametrize("early_s", [0, 1])
@pytest.mark.parametrize("per_minute", [1, 2, 3])
def test_after_the_wait_that_was_told_a_proposal_goes_through_and_not_before(
    per_minute: int, early_s: int, time: Clock
) -> None:
    """Proposals eleven seconds apart until one is refused; it counts like the others."""
    mine = desk(per_minute)
    for _ in range(per_minute):
        assert mine.propose(mine.open())["verdict"] == "ACCEPT"
        time.forward(11)
    wait_s = mine.propose(mine.open())["retry_after_s"]
    assert wait_s == 60 - 11 * (per_minute - 1)
    time.forward(wait_s - early_s)
    answer = mine.propose(mine.open())
    assert answer["verdict"] == ("REJECT" if early_s else "ACCEPT")


def test_a_wait_is_told_in_whole_seconds_and_never_none(time: Clock) -> None:
    mine = desk(2)
    mine.propose(mine.open())
    time.forward(0.5)
    mine.propose(mine.open())
    time.forward(0.001)
    assert mine.propose(mine.open())["retry_after_s"] == 60
    time.forward(59.4)
    assert mine.propose(mine.open())["retry_after_s"] == 1
