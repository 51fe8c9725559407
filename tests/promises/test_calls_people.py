"""When a person is called: each trigger opens one escalation, and its agent is told."""

from typing import Any

import pytest

from escalations.models import Escalation
from tests.properties.lifecycle_ground import Fate
from tests.support.end_to_end import IN_STEPS, Console, Person

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quantity": 60}, "RISK_LIMIT_EXCEEDED"),
        ({"confidence": 0.1}, "LOW_CONFIDENCE"),
        ({"human_review_required": True}, "REVIEW_REQUESTED"),
    ],
)
def test_before_anything_runs(desk: Console, changes: dict[str, Any], reason: str) -> None:
    verdict = desk.propose(**changes)
    escalation = Escalation.objects.get()
    assert (verdict["verdict"], escalation.family, escalation.reason) == ("ESCALATE", "DECISION", reason)
    name, event = desk.feedback(verdict["dfid"])[-1]
    assert (name, event["status"]) == ("ESCALATION_REQUIRED", "AWAITING_HUMAN_INPUT")


@pytest.mark.parametrize(
    ("fate", "rounds", "reason"),
    [
        (Fate.BUSY, 4, "REPEATED_FAILURE"),
        (Fate.LOSE_AFTER, 1, "IN_DOUBT"),
        (Fate.RUBBISH, 1, "IN_DOUBT"),
        (Fate.FAIL_AFTER, 1, "IN_DOUBT"),
    ],
)
def test_when_a_call_has_failed(desk: Console, fate: Fate, rounds: int, reason: str) -> None:
    desk.propose()
    desk.broker.fate = fate
    desk.work(rounds=rounds)
    escalation = Escalation.objects.get()
    assert (escalation.family, escalation.reason, escalation.deadline_at) == ("OPERATIONAL", reason, None)
    assert desk.broker.calls == rounds


def test_when_something_cannot_be_undone(desk: Console) -> None:
    desk.propose(policy_kind=IN_STEPS)
    desk.work()
    desk.broker.fate = Fate.REFUSE
    desk.work(rounds=2)
    assert Escalation.objects.get().reason == "COMPENSATION_FAILED"


def test_the_answer_is_the_agents_to_read(desk: Console, olivia: Person) -> None:
    verdict = desk.propose(quantity=60)
    assert olivia.decide(verdict["escalation_id"], "MODIFY", params='{"quantity": 20}') == 302
    desk.work()
    resolved = dict(desk.feedback(verdict["dfid"]))["ESCALATION_RESOLVED"]
    assert resolved["action"] == "MODIFY"
    assert resolved["params"] == {"quantity": 20}
