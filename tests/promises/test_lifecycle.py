"""A flow goes one way through its states, by one table, and its agent is told each end."""

import itertools

import pytest

from audit import canonical
from audit.models import LedgerEntry
from tests.properties.lifecycle_ground import Fate
from tests.support.end_to_end import Console, Person

pytestmark = pytest.mark.django_db


def way(dfid: str) -> list[str]:
    """The states a flow has gone through, as its entries say."""
    rows = LedgerEntry.objects.filter(stream=dfid, kind="flow:moved").order_by("seq")
    moves = [canonical.decode(bytes(row.body))["payload"] for row in rows]
    for before, after in itertools.pairwise(moves):
        assert before["to_state"] == after["from_state"]
    return [move["to_state"] for move in moves]


def test_from_proposal_to_close(desk: Console) -> None:
    dfid = desk.propose()["dfid"]
    desk.work()
    assert way(dfid) == ["ACTIVE", "VALIDATING", "ACCEPTED", "EXECUTING", "CLOSED"]
    assert [name for name, _ in desk.feedback(dfid)] == [
        "VALIDATION_FEEDBACK",
        "EXECUTION_OUTCOME",
        "FLOW_CLOSED",
    ]


def test_a_rejection_gives_another_try(desk: Console) -> None:
    dfid = desk.open()
    assert desk.propose(dfid, quantity=90)["state"] == "ACTIVE"
    assert desk.propose(dfid, quantity=10)["state"] == "ACCEPTED"
    assert way(dfid) == ["ACTIVE", "VALIDATING", "ACTIVE", "VALIDATING", "ACCEPTED"]


def test_a_person_between_proposal_and_close(desk: Console, olivia: Person) -> None:
    verdict = desk.propose(quantity=60)
    assert olivia.decide(verdict["escalation_id"], "OVERRIDE") == 302
    desk.work()
    assert way(verdict["dfid"])[-4:] == ["ESCALATED", "ACCEPTED", "EXECUTING", "CLOSED"]


def test_a_refusal_for_good_ends_in_abort(desk: Console) -> None:
    desk.broker.fate = Fate.REFUSE
    dfid = desk.propose()["dfid"]
    desk.work()
    assert way(dfid)[-2:] == ["EXECUTING", "ABORTED"]
    assert desk.feedback(dfid)[-1][0] == "FLOW_ABORTED"


def test_an_ended_flow_takes_nothing(desk: Console) -> None:
    dfid = desk.open()
    body = desk.body(dfid)
    desk.agent.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    desk.send(dfid, body).problem(409, "FLOW_NOT_OPEN")
    desk.agent.post(f"/flows/{dfid}/cancel", {"reason": "late"}).problem(409, "FLOW_NOT_OPEN")
