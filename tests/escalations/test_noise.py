"""Sums over ended escalations, and what they suggest."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.access.roles import Role
from escalations import noise
from escalations.contracts import Action
from escalations.models import Evidence
from escalations.noise import Advice, EndedCase
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in, text_of


def cases(*ended: str, outcome: str = "", **fields: Any) -> list[EndedCase]:
    return [
        EndedCase(
            **{
                "kind": "BUY",
                "check": "limits",
                "rule": "max_notional",
                "code": "RISK_LIMIT_EXCEEDED",
                "agent_id": "trader",
                "ended": how,
                "outcome": outcome,
                "took_s": 60,
                "value": "150000",
                "limit": "100000",
                **fields,
            }
        )
        for how in ended
    ]


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (cases(*["OVERRIDE"] * 9), None),
        (cases(*["OVERRIDE"] * 10, outcome="SUCCEEDED"), Advice.RETIRE),
        (cases(*["OVERRIDE"] * 19, "ABORT"), Advice.RETIRE),
        (cases(*["OVERRIDE"] * 18, "ABORT", "ABORT"), None),
        (cases(*["OVERRIDE"] * 10, outcome="FAILED"), Advice.WATCH),
        (cases(*["OVERRIDE"] * 10, outcome="COMPENSATED"), Advice.WATCH),
        (cases(*["ABORT"] * 8, "OVERRIDE", "MODIFY"), Advice.REJECT),
        (cases(*["EXPIRED"] * 5, *["MODIFY"] * 5), Advice.STAFF),
        (cases(*["MODIFY"] * 10), None),
    ],
)
def test_the_advice(found: Sequence[EndedCase], advice: Advice | None) -> None:
    (row,) = noise.by_rule(found)
    assert row.advice is advice


def test_the_sums_of_a_rule_and_of_an_agent() -> None:
    found = [
        *cases("OVERRIDE", "OVERRIDE", outcome="SUCCEEDED", took_s=10, value="120000"),
        *cases("MODIFY", took_s=30, value="900000"),
        *cases("ABORT", "EXPIRED", agent_id="other", took_s=90, value="0.5"),
        *cases("OVERRIDE", rule="R_HOURS", value=""),
    ]
    first, second = noise.by_rule(found)
    assert (first.asked, first.let_through, first.let_through_percent, first.executed) == (5, 2, 40, 2)
    assert (first.changed, first.aborted, first.expired, first.ended_badly) == (1, 1, 1, 0)
    # Only whole numbers are compared with each other.
    assert (first.median_s, first.agents, first.values) == (30, 2, (120_000, 900_000))
    assert (second.first.rule, second.values) == ("R_HOURS", None)
    assert [(row.first.agent_id, row.asked) for row in noise.by_agent(found)] == [("trader", 4), ("other", 2)]


@pytest.mark.django_db
def test_the_page_suggests_what_to_retire(db: None, olivia: User) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=50))
    for _ in range(10):
        factories.decide(desk.escalate(), olivia)
    page = text_of(sign_in(Role.ADMIN), "/noise/?days=7")
    assert "Raise the limit, or retire the rule" in page
    assert "half up to 150,000" in page
    # What does not match the ledger counts for nothing.
    Evidence.objects.update(body=b"{}")
    assert "No escalation ended in these days" in text_of(sign_in(Role.ADMIN, name="zoe"), "/noise/?days=x")


@pytest.mark.django_db
def test_what_is_open_or_was_withdrawn_is_not_counted(desk: factories.Desk, olivia: User) -> None:
    desk.escalate()
    factories.cancel(desk, desk.escalate())
    factories.decide(desk.escalate(), olivia, Action.ABORT)
    page = text_of(sign_in(Role.AUDITOR), "/noise/")
    assert page.count("RISK_LIMIT_EXCEEDED") == 1
    assert "0, 1, 0" in " ".join(page.split())
