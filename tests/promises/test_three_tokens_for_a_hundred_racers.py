"""Buckets and rates are exact: a hundred racers for three tokens get three."""

from collections import Counter

import pytest

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, FlowState
from runtime.flows.models import Flow
from runtime.resources.services import budgets
from tests.support import factories, gate_cases, racing

RACERS = 100


@pytest.mark.slow
def test_a_hundred_racers_for_three_escalation_tokens_get_three(real_db: str) -> None:
    desk = factories.desk()
    opened = [desk.open() for _ in range(RACERS)]
    answers = racing.race(
        RACERS, lambda number: racing.propose(desk, opened[number], params=factories.OVER_LIMIT)
    )
    verdicts = Counter(answer["verdict"] for answer in answers)
    assert verdicts == {"ESCALATE": 3, "REJECT": RACERS - 3}
    assert Escalation.objects.count() == 3
    reasons = Counter(answer["reasons"][0]["code"] for answer in answers if answer["verdict"] == "REJECT")
    assert reasons == {Reason.AGENT_PASSIVE: RACERS - 4, Reason.ESCALATION_BUDGET_EXHAUSTED: 1}
    assert desk.again().status == AgentStatus.PASSIVE
    assert Flow.objects.filter(state=FlowState.ABORTED).count() == 1
    assert isinstance(verify_database(), Whole)


def test_a_refill_between_two_races_pays_for_three_more_and_no_others(real_db: str) -> None:
    desk = factories.desk()
    for _ in range(2):
        opened = [desk.open() for _ in range(12)]
        answers = racing.race(
            12,
            lambda number, of=opened: racing.propose(desk, of[number], params=factories.OVER_LIMIT),  # type: ignore[misc]
        )
        assert Counter(answer["verdict"] for answer in answers)["ESCALATE"] == 3
        budgets.refill(tenant=factories.TENANT, agent_id="trader", actor="user:1", reason="Again.")
        assert desk.again().status == AgentStatus.ACTIVE
    assert Escalation.objects.count() == 6


def test_a_rate_of_five_a_minute_lets_five_of_forty_racers_through(real_db: str) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(proposals_per_minute=5))
    opened = [desk.open() for _ in range(40)]
    answers = racing.race(40, lambda number: racing.propose(desk, opened[number]))
    assert Counter(answer["verdict"] for answer in answers) == {"ACCEPT": 5, "REJECT": 35}
    codes = {answer["reasons"][0]["code"] for answer in answers if answer["verdict"] == "REJECT"}
    assert codes == {Reason.RATE_LIMITED}
