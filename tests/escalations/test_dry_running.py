"""The dry run: the verdict that the decision itself would meet, and nothing stored."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding, dry_running
from runtime.contracts.problem import Problem
from runtime.contracts.states import Decision
from runtime.contracts.verdict import VerdictDocument
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return desk.escalate()


def dry_run(
    escalation: Escalation, account: User, action: Action, **fields: Any
) -> VerdictDocument | Problem:
    """What the gate would say; nothing may be stored by asking."""
    before = decision_rows.state_of(escalation), decision_rows.recorded(escalation)
    answer = dry_running.dry_run(
        tenant="default",
        escalation_id=escalation.pk,
        person=factories.person(account),
        request=factories.decision_request(escalation, action, **fields),
    )
    assert (decision_rows.state_of(escalation), decision_rows.recorded(escalation)) == before
    return answer


@pytest.mark.parametrize("amount", [120_000, 150_000, 150_001])
def test_it_says_what_the_decision_will_hear(escalation: Escalation, olivia: User, amount: int) -> None:
    params = {**gate_cases.PARAMS, "notional_cents": amount}
    answer = dry_run(escalation, olivia, Action.MODIFY, params=params)
    assert isinstance(answer, VerdictDocument)
    decided = factories.decide(escalation, olivia, Action.MODIFY, params=params)
    assert (answer.decision is Decision.ACCEPT) is isinstance(decided, deciding.DecisionResult)


def test_an_override_is_dry_run_too(escalation: Escalation, olivia: User) -> None:
    answer = dry_run(escalation, olivia, Action.OVERRIDE)
    assert isinstance(answer, VerdictDocument)
    assert answer.decision is Decision.ACCEPT
    assert answer.effect_text == "BUY 5 AAPL for 1,500.00"


def test_a_condition_that_does_not_hold_is_found(escalation: Escalation, olivia: User) -> None:
    answer = dry_run(escalation, olivia, Action.OVERRIDE, conditions=("params.quantity == 6",))
    assert isinstance(answer, VerdictDocument)
    assert gate_cases.codes(answer) == ["CONDITION_FAILED"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"params": None}, "PARAMS_MISSING"),
        ({"params": gate_cases.PARAMS, "conditions": ("1 +",)}, "CONDITION_UNREADABLE"),
        ({"params": gate_cases.PARAMS, "conditions": ("params.all(p, true)",)}, "CONDITION_UNREADABLE"),
    ],
)
def test_what_cannot_be_judged_is_not_judged(
    escalation: Escalation, olivia: User, fields: dict[str, Any], code: str
) -> None:
    answer = dry_run(escalation, olivia, Action.MODIFY, **fields)
    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (400, code)


def test_what_is_not_there_is_not_found(escalation: Escalation, olivia: User) -> None:
    answer = dry_running.dry_run(
        tenant="default",
        escalation_id=uuid4(),
        person=factories.person(olivia),
        request=factories.decision_request(escalation),
    )
    assert isinstance(answer, Problem)
    assert answer.status == 404
