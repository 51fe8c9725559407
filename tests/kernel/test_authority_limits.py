"""Limits of authority: whose limit counts, what is above it, and which change widens what a person may do."""

from typing import Any

import pytest

from runtime.contracts.states import Impact
from runtime.kernel import authority_limits
from runtime.kernel.authority_limits import AuthorityLimit

ME, OPERATOR, SENIOR = "user:1", "role:operator", "role:senior"


def limit(holder: str = OPERATOR, amount: int | None = 100, **fields: Any) -> AuthorityLimit:
    """At most this much of US cents, for all kinds."""
    return AuthorityLimit(**{"holder": holder, "unit": "cents USD", "amount": amount, **fields})


def of_impact(impact: Impact, holder: str = OPERATOR) -> AuthorityLimit:
    return AuthorityLimit(holder=holder, impact=impact)


def most(*limits: AuthorityLimit, roles: tuple[str, ...] = ("operator",), kind: str = "PAY") -> list[int]:
    found = authority_limits.in_force(limits, holder=ME, roles=roles, policy_kind=kind)
    return [one.most for one in found]


def test_without_a_limit_there_is_none() -> None:
    assert most() == []
    assert most(limit("user:2"), limit(SENIOR), limit(policy_kind="BUY")) == []


def test_the_persons_own_limit_wins_over_that_of_the_role() -> None:
    assert most(limit(amount=100), limit(ME, 500)) == [500]
    assert most(limit(amount=100), limit(ME, 5)) == [5]
    assert most(limit(ME, 5), roles=()) == [5]


def test_a_limit_for_the_kind_wins_over_one_for_all() -> None:
    assert most(limit(amount=100), limit(amount=900, policy_kind="PAY")) == [900]
    assert most(limit(ME, 7), limit(amount=900, policy_kind="PAY")) == [7]


def test_roles_add_up_and_one_without_a_limit_has_none() -> None:
    both = ("operator", "senior")
    assert most(limit(amount=100), limit(SENIOR, 300), roles=both) == [300]
    assert most(limit(amount=100), roles=both) == []
    assert most(limit(amount=100), roles=()) == []


def test_each_unit_and_the_impact_have_a_limit_of_their_own() -> None:
    assert most(limit(amount=100), limit(amount=7, unit="shares"), of_impact(Impact.HIGH_IMPACT)) == [
        100,
        7,
        1,
    ]


@pytest.mark.parametrize(
    ("amounts", "is_above"),
    [({"cents USD": 100}, False), ({"cents USD": 101}, True), ({"shares": 999}, False), ({}, False)],
)
def test_an_amount_above_the_limit(amounts: dict[str, int], is_above: bool) -> None:
    found = authority_limits.first_exceeded([limit()], amounts=amounts, impact=Impact.CRITICAL)
    assert (found is not None) is is_above


def test_a_kind_of_its_own_limit_without_an_amount_is_above_it() -> None:
    named = limit(policy_kind="PAY")
    assert authority_limits.first_exceeded([named], amounts={}, impact=Impact.LOW_IMPACT) == named


@pytest.mark.parametrize("impact", list(Impact))
def test_an_impact_above_the_limit(impact: Impact) -> None:
    found = authority_limits.first_exceeded([of_impact(Impact.HIGH_IMPACT)], amounts={}, impact=impact)
    assert (found is not None) is (impact is Impact.CRITICAL)


@pytest.mark.parametrize(
    ("before", "after", "is_raised"),
    [
        ([], [limit()], False),
        ([limit()], [], True),
        ([limit()], [limit(amount=99)], False),
        ([limit()], [limit(amount=101)], True),
        ([limit()], [limit(), limit(ME, 5000)], True),
        ([limit()], [limit(), limit(ME, 5000, policy_kind="PAY")], True),
        ([limit()], [limit(), limit("user:2", 5000)], False),
        ([limit(), limit(ME, 5)], [limit(amount=5000), limit(ME, 5)], False),
        # Without the limit for the kind itself, a case of the kind without an amount is no longer above one.
        ([limit(), limit(policy_kind="PAY")], [limit()], True),
        ([limit(policy_kind="PAY")], [limit(policy_kind="PAY"), limit(ME, 99)], True),
        ([limit()], [limit(), limit(policy_kind="PAY")], False),
        ([of_impact(Impact.LOW_IMPACT)], [of_impact(Impact.HIGH_IMPACT)], True),
        ([of_impact(Impact.HIGH_IMPACT)], [of_impact(Impact.LOW_IMPACT)], False),
    ],
)
def test_which_change_raises_what_a_person_may_do(
    before: list[AuthorityLimit], after: list[AuthorityLimit], is_raised: bool
) -> None:
    found = authority_limits.is_raised(before, after, holder=ME, roles={"operator"})
    assert found is is_raised
