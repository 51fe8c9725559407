"""Limits of authority at a decision: what is refused and recorded, by which amount, and who may instead."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from escalations import amounts
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import FigureShown, Finding, FindingOutcome
from runtime.kernel.authority_limits import AuthorityLimit
from runtime.registry.services import authority
from tests.escalations.test_deciding import held_back
from tests.registry.test_authority import USD, limit, with_units
from tests.support import factories

pytestmark = pytest.mark.django_db
SMALLER = {**factories.OVER_LIMIT, "notional_cents": 120_000}


@pytest.fixture
def case(db: None) -> Escalation:
    """A proposal of 1,500.00 USD."""
    return factories.desk(kind=with_units()).escalate()


def put(wanted: AuthorityLimit) -> None:
    """As an admin who decides nothing sets it."""
    admin = User.objects.filter(username="ada").first() or factories.user("ada", "admin")
    answer = authority.set_limit(tenant="default", wanted=wanted, actor=f"user:{admin.pk}")
    assert isinstance(answer, AuthorityLimit), answer


def words(case: Escalation, account: User, *named: Any, **fields: Any) -> str:
    answer = factories.decide(case, account, *named, **fields)
    assert isinstance(answer, Problem)
    assert answer.code == "AUTHORITY_EXCEEDED"
    return answer.detail


def test_above_the_limit_it_is_refused_and_recorded(case: Escalation, olivia: User) -> None:
    put(limit(amount=149_999))
    held_back(case, olivia, expected=(403, "AUTHORITY_EXCEEDED"))
    assert not Decision.objects.exists()
    assert isinstance(factories.decide(case, olivia, Action.ABORT), deciding.DecisionResult)


def test_at_the_limit_it_is_decided(case: Escalation, olivia: User) -> None:
    put(limit(amount=150_000))
    assert isinstance(factories.decide(case, olivia), deciding.DecisionResult)


def test_the_sentence_names_who_may(case: Escalation, olivia: User) -> None:
    put(limit(amount=100_000))
    above = "Above your limit of 1,000.00 USD for ADJUST_POSITION."
    assert words(case, olivia) == f"{above} Nobody else here may decide it either: abort, or ask an admin."
    factories.user("otto")
    owner = factories.user("dora", "senior", groups=("trading-desk",))
    assert "Nobody else" in words(case, olivia)
    owner.groups.remove(Group.objects.get(name="trading-desk"))
    factories.user("dana", "senior")
    assert words(case, olivia) == f"{above} dana or dora may decide."
    factories.user("emil", "senior")
    assert words(case, olivia) == f"{above} dana, dora or another senior may decide."


def test_a_change_is_judged_by_its_own_amount(case: Escalation, olivia: User) -> None:
    put(limit(amount=120_000))
    above = {**SMALLER, "notional_cents": 120_001}
    held_back(case, olivia, Action.MODIFY, params=above, expected=(403, "AUTHORITY_EXCEEDED"))
    assert isinstance(factories.decide(case, olivia, Action.MODIFY, params=SMALLER), deciding.DecisionResult)


def test_a_change_without_an_amount_is_judged_by_the_one_shown(case: Escalation, olivia: User) -> None:
    put(limit(amount=120_000))
    without = {name: value for name, value in SMALLER.items() if name != "notional_cents"}
    answer = factories.decide(case, olivia, Action.MODIFY, params=without)
    assert isinstance(answer, Problem)
    assert not Decision.objects.exists()


def test_both_of_two_people_are_asked(olivia: User, mara: User) -> None:
    critical = with_units().model_copy(update={"approvals": 2})
    case = factories.desk(kind=critical).escalate()
    assert isinstance(factories.decide(case, mara), deciding.DecisionResult)
    put(limit())
    held_back(case, olivia, expected=(403, "AUTHORITY_EXCEEDED"))
    nils = factories.user("nils", "senior")
    # The first one's own limit is asked again: it was lowered since.
    put(limit(f"user:{mara.pk}"))
    answer = factories.decide(case, nils)
    assert isinstance(answer, deciding.DecisionResult)
    assert answer.first_of_two is not None
    assert not answer.first_of_two.differed


def test_a_limit_of_impact(case: Escalation, olivia: User) -> None:
    put(AuthorityLimit(holder="role:operator", impact=Impact.LOW_IMPACT))
    assert isinstance(factories.decide(case, olivia), deciding.DecisionResult)
    put(limit())
    heavy = factories.desk(kind=with_units(), agent_id="other").escalate(params=factories.HIGH_IMPACT)
    assert "Above your limit" in words(heavy, olivia)


def finding(check: str, subject: str, value: str | None) -> Finding:
    return Finding(check=check, outcome=FindingOutcome.REFER, subject=subject, proposed_value=value)


def test_the_amounts_of_a_case_by_unit() -> None:
    known = AmountUnits(params={"cents": USD, "n": "shares"}, limits={"most": USD})
    params = {"cents": -500, "n": 2.5, "id": 99, "name": "x", "open": True}
    figures = [FigureShown(param="cents", stated=500, live=501, stated_text="", live_text="")]
    found = [finding("limits", "most", "700"), finding("rules", "x", "9999"), finding("limits", "y", None)]
    read = amounts.read(params=params, figures=figures, findings=found, known=known)
    assert read == {USD: 700, "shares": 3, "": 99}
    plain = amounts.read(
        params=params, figures=(), findings=[finding("limits", "z", "5")], known=AmountUnits()
    )
    # Without a unit the value of a limit counts before any parameter.
    assert plain == {"": 5}
