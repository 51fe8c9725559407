"""Feedback: in order, past a cursor, of one's own flows."""

import pytest

from runtime.flows.queries import feedback
from tests.support import api_client


def rejected(caller: api_client.Caller, times: int) -> str:
    dfid = caller.open_flow()
    for _ in range(times):
        caller.propose(dfid, api_client.proposal("unknown")).ok()
    return dfid


def test_is_empty_before_anything_happened(trader: api_client.Caller) -> None:
    assert trader.get(f"/flows/{trader.open_flow()}/feedback").ok() == {"events": [], "next": 0}


def test_goes_on_from_its_cursor(trader: api_client.Caller) -> None:
    dfid = rejected(trader, 2)
    first = trader.get(f"/flows/{dfid}/feedback").ok()
    assert [event["seq"] for event in first["events"]] == [1, 2]
    assert set(first["events"][0]) == {"seq", "event_type", "at", "data"}
    assert first["events"][0]["data"]["verdict"] == "REJECT"
    assert first["next"] == 2
    assert trader.get(f"/flows/{dfid}/feedback?after=1").ok()["next"] == 2
    assert trader.get(f"/flows/{dfid}/feedback?after=2").ok() == {"events": [], "next": 2}
    assert trader.get(f"/flows/{dfid}/feedback?after=2147483647").ok()["next"] == 2147483647


def test_the_third_failure_aborts_the_flow(trader: api_client.Caller) -> None:
    dfid = rejected(trader, 3)
    events = trader.get(f"/flows/{dfid}/feedback").ok()["events"]
    assert events[-1]["event_type"] == "FLOW_ABORTED"
    assert trader.get(f"/flows/{dfid}").ok()["reason"] == "REASONING_EXHAUSTION"
    trader.propose(dfid, api_client.proposal()).problem(409, "FLOW_NOT_OPEN")


def test_comes_in_pages(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "MAX_EVENTS", 1)
    dfid = rejected(trader, 2)
    page = trader.get(f"/flows/{dfid}/feedback").ok()
    assert ([event["seq"] for event in page["events"]], page["next"]) == ([1], 1)


@pytest.mark.parametrize(
    "query",
    [
        "after=-1",
        "after=x",
        "after=",
        "after=1.5",
        "after=2147483648",
        "after=99999999999999999999999",
        "wait=-1",
        "wait=31",
        "wait=x",
        "wait=1e1",
        "wait=NaN",
    ],
)
def test_refuses_a_cursor_or_a_wait_of_another_form(trader: api_client.Caller, query: str) -> None:
    dfid = trader.open_flow()
    problem = trader.get(f"/flows/{dfid}/feedback?{query}").problem(422, "INVALID_REQUEST")
    assert problem["violations"][0]["pointer"] == "/query/" + query.partition("=")[0]


def test_answers_at_once_where_nothing_can_wait(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    assert trader.get(f"/flows/{dfid}/feedback?wait=30").ok()["events"] == []


def test_an_aborted_flow_can_still_be_read(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.post(f"/flows/{dfid}/cancel", {"reason": "x"}).ok()
    assert trader.get(f"/flows/{dfid}/feedback").ok()["next"] == 1
