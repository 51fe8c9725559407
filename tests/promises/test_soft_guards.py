"""A guard that doubts the words flags the flow for a person, after the verdict, and blocks nothing."""

import pytest

from runtime.guards.models import Review
from tests.support import guard_rounds
from tests.support.end_to_end import Console

pytestmark = pytest.mark.django_db


def test_a_flag_changes_no_verdict_and_stops_no_call(desk: Console) -> None:
    guard_rounds.configure()
    plain = desk.propose()
    verdict = desk.propose(explain="I propose to buy 500 units, as planned.")
    assert (plain["verdict"], verdict["verdict"]) == ("ACCEPT", "ACCEPT")
    guard_rounds.run_all()
    review = Review.objects.get()
    assert (str(review.flow_id), review.state) == (verdict["dfid"], "OPEN")
    desk.work()
    assert desk.effects() == 2
    assert desk.flow(verdict["dfid"])["state"] == "CLOSED"
