"""Two people, and limits of authority, as a table of truth of the policy alone."""

from typing import Any

import pytest

from escalations import policy
from escalations.contracts import Action, Family
from escalations.policy import Allowed
from runtime.contracts.states import Effect, Impact
from runtime.kernel.authority_limits import AuthorityLimit
from tests.escalations.test_policy import NOW_MS, denied, may, person, situation

CRITICAL = Impact.CRITICAL
FOR_TWO = {Action.OVERRIDE, Action.MODIFY, Action.RESUME, Action.REDIRECT, Action.MARK_DONE}
USD = "cents USD"


def limited(amount: int | None = 100_000, **fields: Any) -> policy.Person:
    """An operator with a limit of 1,000.00 USD for transfers."""
    limit = {"holder": "role:operator", "policy_kind": "TRANSFER", "unit": USD, "amount": amount, **fields}
    return person(limits=(AuthorityLimit(**limit),))


def transfer(cents: int = 100_001, **fields: Any) -> policy.EscalationContext:
    return situation(**{"policy_kind": "TRANSFER", "amounts": {USD: cents}, **fields})


@pytest.mark.parametrize("action", list(Action))
def test_two_people_are_needed_at_critical_impact_and_where_the_kind_says_so(action: Action) -> None:
    for_two: list[dict[str, Any]] = [{"impact": CRITICAL}, {"approvals": 2}]
    assert all(policy.needs_two(action, situation(**case)) is (action in FOR_TWO) for case in for_two)
    assert not policy.needs_two(action, situation(impact=Impact.HIGH_IMPACT))


@pytest.mark.parametrize("family", list(Family))
def test_a_silent_agent_is_for_one_person(family: Family) -> None:
    assert policy.is_for_two(situation(family=family, impact=CRITICAL)) is (family is not Family.AGENT)


@pytest.mark.parametrize("case", [{"impact": CRITICAL}, {"approvals": 2}])
def test_who_made_the_first_decision_makes_no_second_but_may_abort(case: dict[str, Any]) -> None:
    mine, others = situation(**case, first_by=1), situation(**case, first_by=2)
    assert denied(may(what=mine)) == ("SECOND_PERSON_NEEDED", 409)
    assert may(what=others) == Allowed()
    assert may(Action.ABORT, what=mine) == Allowed()
    assert may(Action.REQUEST_INFO, what=mine) == Allowed()


def test_who_may_hold_the_first_account_makes_no_second_decision_but_may_abort() -> None:
    what = situation(impact=CRITICAL, first_by=2, in_one_hand=frozenset({"user:1"}))
    answer = may(what=what)
    assert denied(answer) == ("SECOND_PERSON_NEEDED", 409)
    assert isinstance(answer, policy.Denied)
    assert "invite" in answer.why
    assert may(Action.ABORT, what=what) == Allowed()
    assert may(Action.REQUEST_INFO, what=what) == Allowed()
    assert may(what=situation(impact=CRITICAL, first_by=2, in_one_hand=frozenset({"user:3"}))) == Allowed()


def test_who_is_alone_can_only_abort() -> None:
    alone, what = person(is_solo=True), situation(impact=CRITICAL)
    assert denied(may(who=alone, what=what)) == ("TWO_PEOPLE_NEEDED", 403)
    assert may(Action.ABORT, who=alone, what=what) == Allowed()
    assert may(who=alone, what=situation(impact=CRITICAL, first_by=2)) == Allowed()


def test_a_tie_binds_who_is_alone_too_where_two_are_needed() -> None:
    what = situation(impact=CRITICAL, first_by=2, agent_owner="olivia")
    assert denied(may(who=person(is_solo=True), what=what)) == ("SEPARATION_OF_DUTY", 403)


def test_both_need_a_fresh_password_and_a_long_reason() -> None:
    for first_by in (None, 2):
        stale = may(who=person(confirmed_at_ms=None), what=situation(impact=CRITICAL, first_by=first_by))
        assert denied(stale) == ("STEP_UP", 401)
    assert policy.reason_missing(Action.OVERRIDE, CRITICAL, "short") is not None
    assert policy.is_typed_again(Action.OVERRIDE, situation(impact=CRITICAL))


def test_above_a_limit_only_stopping_and_asking_are_left() -> None:
    answer = may(who=limited(), what=transfer())
    assert denied(answer) == ("AUTHORITY_EXCEEDED", 403)
    assert isinstance(answer, policy.Denied)
    assert answer.why == "Above your limit of 1,000.00 USD for TRANSFER."
    for action in (Action.ABORT, Action.REQUEST_INFO):
        assert may(action, who=limited(), what=transfer()) == Allowed()
    assert may(who=limited(), what=transfer(100_000)) == Allowed()
    assert may(who=person(), what=transfer()) == Allowed()


def test_a_change_is_judged_by_its_own_amount_and_by_the_shown_one_without_it() -> None:
    assert may(Action.MODIFY, who=limited(), what=transfer()) == Allowed()

    def judged(changed: dict[str, int]) -> policy.Denied | None:
        return policy.beyond_authority(Action.MODIFY, limited(), transfer(), changed=changed)

    assert judged({USD: 100_000}) is None
    assert judged({USD: 100_001}) is not None
    assert judged({"shares": 5}) is not None


def test_an_amount_that_cannot_be_read_is_not_within_a_limit_of_its_kind() -> None:
    answer = may(who=limited(), what=transfer(amounts={}))
    assert isinstance(answer, policy.Denied)
    assert answer.why == "The amount for TRANSFER cannot be read in the unit of your limit of 1,000.00 USD."
    assert may(who=limited(policy_kind=""), what=transfer(amounts={})) == Allowed()


def test_an_amount_without_a_unit() -> None:
    answer = may(who=limited(policy_kind="", unit=""), what=situation(amounts={"": 100_001}))
    assert isinstance(answer, policy.Denied)
    assert answer.why == "Above your limit of 100,000."


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_an_impact_above_the_limit(action: Action) -> None:
    who = limited(None, unit="", policy_kind="", impact=Impact.HIGH_IMPACT)
    answer = may(action, who=who, what=transfer(impact=CRITICAL))
    assert isinstance(answer, policy.Denied)
    assert answer.why == "Above your limit: you may decide up to HIGH_IMPACT for TRANSFER."
    assert may(action, who=who, what=transfer(impact=Impact.HIGH_IMPACT)) == Allowed()


def test_a_limit_of_a_role_that_does_not_decide_counts_for_nobody() -> None:
    who = person(
        roles=frozenset({"operator", "auditor"}),
        limits=(AuthorityLimit(holder="role:auditor", unit=USD, amount=1),),
    )
    assert may(who=who, what=transfer()) == Allowed()


def test_a_stated_effect_makes_no_abort_a_matter_of_authority() -> None:
    what = transfer(family=Family.OPERATIONAL, in_doubt=True, impact=CRITICAL)
    answer = policy.may(Action.ABORT, limited(), what, now_ms=NOW_MS, effect=Effect.HAPPENED)
    assert answer == Allowed()
