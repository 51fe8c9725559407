"""Three attempts in a flow: the third rejection ends it, and nothing but a rejection costs one."""

import pytest

from tests.support.end_to_end import Console, shake

pytestmark = pytest.mark.django_db


def test_the_third_rejection_aborts_the_flow(desk: Console) -> None:
    dfid = desk.open()
    found = [desk.propose(dfid, quantity=90) for _ in range(3)]
    assert [verdict["attempts_left"] for verdict in found] == [2, 1, 0]
    assert [verdict["state"] for verdict in found] == ["ACTIVE", "ACTIVE", "ABORTED"]
    assert "REASONING_EXHAUSTION" in {reason["code"] for reason in found[-1]["reasons"]}
    desk.agent.post(f"/flows/{dfid}/context").problem(409, "FLOW_NOT_OPEN")


def test_a_repeated_call_and_a_malformed_one_cost_nothing(desk: Console) -> None:
    dfid = desk.open()
    body = desk.body(dfid, quantity=90)
    for _ in range(4):
        assert desk.send(dfid, body, "one-key").ok()["attempts_left"] == 2
    assert desk.send(dfid, {"nonsense": True}).status == 422
    assert desk.flow(dfid)["attempts_left"] == 2


def test_a_new_session_brings_no_new_attempts(desk: Console) -> None:
    dfid = desk.open()
    desk.propose(dfid, quantity=90)
    desk.agent.token = shake(desk.key)
    assert desk.propose(dfid, quantity=90)["attempts_left"] == 1
