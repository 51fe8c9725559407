"""Execution: an accepted proposal is called once, with its key, and its agent hears what came of it."""

import json

import pytest

from runtime.flows.models import Intent
from tests.properties.lifecycle_ground import Fate
from tests.support.end_to_end import Console, Person

pytestmark = pytest.mark.django_db


def test_the_receipt_reaches_the_agent(desk: Console) -> None:
    verdict = desk.propose()
    desk.work()
    (seen,) = desk.target.seen
    assert json.loads(seen.body)["params"] == {"quantity": 10}
    assert seen.headers["Idempotency-Key"]
    outcome = dict(desk.feedback(verdict["dfid"]))["EXECUTION_OUTCOME"]
    assert (outcome["status"], outcome["receipt"]) == ("SUCCEEDED", {"order_id": "o1"})


def test_a_busy_target_is_asked_again(desk: Console) -> None:
    desk.broker.fate = Fate.BUSY
    verdict = desk.propose()
    desk.work(rounds=2)
    assert Intent.objects.get().failures == 2
    desk.broker.fate = Fate.SUCCEED
    desk.work()
    assert (desk.flow(verdict["dfid"])["state"], desk.effects()) == ("CLOSED", 1)


def test_a_refusal_is_not_tried_again(desk: Console) -> None:
    desk.broker.fate = Fate.REFUSE
    verdict = desk.propose()
    desk.work(rounds=3)
    assert desk.broker.calls == 1
    assert desk.flow(verdict["dfid"])["reason"] == "TERMINAL_FAILURE"


@pytest.mark.parametrize(
    ("action", "receipt", "state"), [("MARK_DONE", '{"id": "7"}', "CLOSED"), ("ABORT", "", "ABORTED")]
)
def test_a_person_settles_a_doubt(
    desk: Console, olivia: Person, action: str, receipt: str, state: str
) -> None:
    desk.broker.fate = Fate.LOSE_AFTER
    verdict = desk.propose()
    desk.work()
    asked = dict(desk.feedback(verdict["dfid"]))["ESCALATION_REQUIRED"]
    assert olivia.decide(asked["escalation_id"], action, receipt=receipt) == 302
    desk.work()
    assert (desk.flow(verdict["dfid"])["state"], desk.broker.calls) == (state, 1)


def test_resume_sends_the_same_key(desk: Console, olivia: Person) -> None:
    desk.broker.fate = Fate.LOSE_BEFORE
    verdict = desk.propose()
    desk.work()
    asked = dict(desk.feedback(verdict["dfid"]))["ESCALATION_REQUIRED"]
    assert olivia.decide(asked["escalation_id"], "RESUME") == 302
    desk.broker.fate = Fate.SUCCEED
    desk.work()
    assert len({seen.headers["Idempotency-Key"] for seen in desk.target.seen}) == 1
    assert (desk.flow(verdict["dfid"])["state"], desk.effects()) == ("CLOSED", 1)
