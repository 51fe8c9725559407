"""Sagas: all steps, or the done ones undone backwards, or a person; the agent is locked in between."""

import pytest

from runtime.registry.models import Agent
from tests.properties.lifecycle_ground import Fate
from tests.support.end_to_end import IN_STEPS, Console

pytestmark = pytest.mark.django_db


def status() -> str:
    return str(Agent.objects.get().status)


def paths(desk: Console) -> list[str]:
    return [seen.path for seen in desk.target.seen]


def test_all_steps_in_order(desk: Console) -> None:
    verdict = desk.propose(policy_kind=IN_STEPS)
    desk.work(rounds=4)
    assert paths(desk) == ["/hold", "/pay", "/ship"]
    assert desk.flow(verdict["dfid"])["state"] == "CLOSED"


def test_a_step_that_is_refused_undoes_those_before_it_backwards(desk: Console) -> None:
    verdict = desk.propose(policy_kind=IN_STEPS)
    desk.work(rounds=2)
    desk.broker.fate = Fate.REFUSE
    desk.work()
    assert desk.flow(verdict["dfid"])["state"] == "PARTIAL_SUCCESS_DIRTY"
    assert status() == "LOCKED"
    assert desk.propose()["reasons"][0]["code"] == "AGENT_LOCKED"
    desk.broker.fate = Fate.SUCCEED
    desk.work(rounds=3)
    assert paths(desk) == ["/hold", "/pay", "/ship", "/pay/undo", "/hold/undo"]
    assert desk.flow(verdict["dfid"])["state"] == "ABORTED"
    assert status() == "ACTIVE"


def test_a_step_that_cannot_be_undone_goes_to_a_person(desk: Console) -> None:
    verdict = desk.propose(policy_kind=IN_STEPS)
    desk.work()
    desk.broker.fate = Fate.REFUSE
    desk.work(rounds=3)
    assert desk.flow(verdict["dfid"])["state"] == "ESCALATED"
    name, event = desk.feedback(verdict["dfid"])[-1]
    assert (name, event["reason"]) == ("ESCALATION_REQUIRED", "COMPENSATION_FAILED")
    assert status() == "LOCKED"
