"""The escalation bucket under real threads: three tokens are three escalations, and PASSIVE comes once."""

from collections import Counter
from functools import partial

import pytest

from audit.models import LedgerEntry
from escalations.models import Escalation
from runtime.flows.models import Flow
from tests.support import factories, gate_cases, racing

RACERS = 100


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    return factories.desk()


def outcomes(desk: factories.Desk, flows: list[factories.Opened]) -> Counter[str]:
    """The first reason of each answer to a proposal above the limit, sent on every flow at once."""
    works = [partial(desk.propose, flow, params=factories.OVER_LIMIT) for flow in flows]
    found: Counter[str] = Counter()
    for answer in racing.all_at_once(works):
        assert isinstance(answer, dict), answer
        found[answer["reasons"][0]["code"] if answer["verdict"] == "REJECT" else "ESCALATE"] += 1
    return found


@pytest.mark.slow
def test_a_hundred_racers_for_three_tokens_get_three(desk: factories.Desk) -> None:
    flows = [desk.open() for _ in range(RACERS)]
    found = outcomes(desk, flows)
    assert found == {"ESCALATE": 3, "ESCALATION_BUDGET_EXHAUSTED": 1, "AGENT_PASSIVE": RACERS - 4}
    assert Escalation.objects.filter(state="OPEN").count() == 3
    assert desk.again().status == "PASSIVE"
    assert 0 <= desk.again().escalation_millitokens < 1_000
    assert LedgerEntry.objects.filter(kind="agent:status_changed").count() == 1
    states = Counter(Flow.objects.values_list("state", flat=True))
    assert states == {"ESCALATED": 3, "ABORTED": 1, "ACTIVE": RACERS - 4}


def test_two_agents_do_not_share_a_bucket(desk: factories.Desk) -> None:
    other = factories.desk(agent_id="other", manifest=gate_cases.manifest(escalations_per_hour=1))
    works = [
        partial(who.propose, who.open(), params=factories.OVER_LIMIT)
        for who in (desk, other)
        for _ in range(2)
    ]
    racing.all_at_once(works)
    granted = Counter(Escalation.objects.values_list("agent_id", flat=True))
    assert granted == {"trader": 2, "other": 1}
    assert (desk.again().status, other.again().status) == ("ACTIVE", "PASSIVE")
