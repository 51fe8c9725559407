"""What follows from a verdict: the answer in plain numbers, and a word of feedback for each turn."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.flows.models import Feedback, Intent
from runtime.proposals.services import apply_verdict
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


def finding(proposed_value: str | None, limit: str | None) -> Finding:
    """A finding that compared two things."""
    return Finding(
        check="limits",
        outcome=FindingOutcome.FAIL,
        code="RISK_LIMIT_EXCEEDED",
        message="above",
        proposed_value=proposed_value,
        limit=limit,
    )


def told(flow: factories.Opened) -> list[dict[str, Any]]:
    """The bodies of a flow's feedback, in order."""
    rows = Feedback.objects.filter(flow_id=flow.dfid).order_by("seq")
    return [canonical.decode(bytes(row.body)) for row in rows]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("150000", 150_000),
        ("0.5", 0.5),
        ("0.50", 0.5),
        ("true", "true"),
        ('"OPEN"', '"OPEN"'),
        ('"cut of', '"cut of'),
        ("NaN", "NaN"),
        ("null", "null"),
    ],
)
def test_numbers_go_back_to_numbers_and_everything_else_stays_text(text: str, value: Any) -> None:
    assert apply_verdict.reason_of(finding(text, None)) == {
        "code": "RISK_LIMIT_EXCEEDED",
        "check": "limits",
        "message": "above",
        "proposed_value": value,
    }


def test_the_details_of_an_escalation_are_its_two_numbers() -> None:
    assert apply_verdict.details_of(finding("2", "1")) == {"proposed_value": 2, "limit": 1}
    assert apply_verdict.details_of(finding(None, None)) == {"proposed_value": None, "limit": None}


def test_a_reject_tells_the_agent_why_and_what_is_left() -> None:
    desk = factories.desk()
    flow = desk.open()
    answer = desk.propose(flow, params={**gate_cases.PARAMS, "quantity": 0})
    (body,) = told(flow)
    assert body == {
        "proposal_id": answer["proposal_id"],
        "verdict": "REJECT",
        "reasons": answer["reasons"],
        "attempts_left": 2,
    }
    assert body["reasons"][0]["message"] == "/params/quantity must be at least 1"


def test_an_escalation_tells_the_agent_to_wait_for_a_person() -> None:
    desk = factories.desk()
    flow = desk.open()
    answer = desk.propose(flow, params=factories.OVER_LIMIT)
    assert told(flow) == [
        {
            "escalation_id": answer["escalation_id"],
            "reason": "RISK_LIMIT_EXCEEDED",
            "details": {"proposed_value": 150_000, "limit": 100_000},
            "status": "AWAITING_HUMAN_INPUT",
        }
    ]


def test_the_intent_holds_calls_and_expectations_as_they_were_judged() -> None:
    predicted = [{"fact": "price.AAPL", "value": "params.quantity"}]
    steps = [
        {"id": "check", "executor": "simulated"},
        {"id": "order", "target": "broker", "request": {"path": "/o"}, "timeout_s": 3},
    ]
    desk = factories.desk(kind=gate_cases.kind(predicts=predicted, steps=steps))
    desk.propose(desk.open())
    intent = Intent.objects.get()
    held = canonical.decode(bytes(intent.requests))
    assert [(step["step"], step["executor"], step["path"], step["timeout_s"]) for step in held["steps"]] == [
        ("check", "simulated", "/check", 10),
        ("order", "http", "/o", 3),
    ]
    assert len({step["key"] for step in held["steps"]}) == 2
    assert held["expected"] == [{"fact": "price.AAPL", "current": 18_950, "proposed": 5}]
    assert intent.target == ""
