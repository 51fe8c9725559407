"""What a person may lift: a REFER that was shown, up to the value that was shown, and nothing else."""

from typing import Any

import pytest

from runtime.contracts.facts import Lift
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Decision
from runtime.contracts.verdict import FindingOutcome, VerdictDocument
from runtime.kernel.gate import findings
from tests.support import gate_cases

AMOUNT = 150_000


def over_the_limit(amount: Any = AMOUNT, **fields: Any) -> Any:
    """A proposal above the manifest's limit."""
    return gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": amount}, **fields)


def lift(**fields: Any) -> Lift:
    """What lifts `over_the_limit()`."""
    return Lift(
        **{
            "check": "limits",
            "code": "RISK_LIMIT_EXCEEDED",
            "subject": "max_notional",
            "proposed_value": str(AMOUNT),
            **fields,
        }
    )


def by_person(lifts: tuple[Lift, ...], amount: Any = AMOUNT, **fields: Any) -> VerdictDocument:
    """The verdict on a person's proposal with these lifts."""
    known = fields.pop("facts", {})
    return gate_cases.judge(
        proposal=over_the_limit(amount, by_person=True, author="user:1"),
        facts=gate_cases.facts(lifts=lifts, escalation_tokens=0, **known),
        **fields,
    )


def test_what_was_shown_is_lifted_and_the_record_says_so() -> None:
    shown = gate_cases.judge(proposal=over_the_limit())
    assert shown.decision is Decision.ESCALATE
    verdict = by_person(gate_cases.lifts_of(shown))
    assert verdict.decision is Decision.ACCEPT
    (lifted,) = [item for item in verdict.findings if item.outcome is FindingOutcome.LIFTED]
    assert (lifted.subject, lifted.proposed_value) == ("max_notional", str(AMOUNT))


@pytest.mark.parametrize("amount", [100_001, AMOUNT - 1, AMOUNT])
def test_a_smaller_amount_than_the_one_shown_is_lifted_too(amount: int) -> None:
    assert by_person((lift(),), amount).decision is Decision.ACCEPT


def test_a_larger_amount_than_the_one_shown_is_not_lifted() -> None:
    verdict = by_person((lift(),), AMOUNT + 1)
    assert verdict.decision is Decision.ESCALATE
    assert gate_cases.codes(verdict) == ["RISK_LIMIT_EXCEEDED"]


@pytest.mark.parametrize(
    "other",
    [
        {"check": "rules"},
        {"code": "LOW_CONFIDENCE"},
        {"subject": "max_orders"},
        {"proposed_value": None},
        {"proposed_value": "a lot"},
        {"proposed_value": "NaN"},
        {"proposed_value": "-Infinity"},
    ],
)
def test_a_lift_of_something_else_lifts_nothing(other: dict[str, Any]) -> None:
    assert by_person((lift(**other),)).decision is Decision.ESCALATE


def test_without_lifts_a_persons_proposal_is_held_to_the_limit() -> None:
    assert by_person(()).decision is Decision.ESCALATE


def test_a_fail_is_never_lifted() -> None:
    hard = gate_cases.kind(
        limits=[
            {
                "id": "max_notional",
                "value": "params.notional_cents",
                "limit": "manifest.limits.max_notional_cents",
                "on_exceed": "REJECT",
            }
        ]
    )
    verdict = by_person((lift(),), rules=gate_cases.rules(kind=hard))
    assert verdict.decision is Decision.REJECT


def test_a_fail_is_not_lifted_beside_what_is() -> None:
    hard = {"id": "max_orders", "value": "params.notional_cents", "limit": "1", "on_exceed": "REJECT"}
    soft = {
        "id": "max_notional",
        "value": "params.notional_cents",
        "limit": "manifest.limits.max_notional_cents",
    }
    verdict = by_person(
        (lift(), lift(subject="max_orders")),
        rules=gate_cases.rules(kind=gate_cases.kind(limits=[hard, soft])),
    )
    assert verdict.decision is Decision.REJECT
    found = {item.subject: item.outcome for item in verdict.findings if item.check == "limits"}
    assert found == {"max_orders": FindingOutcome.FAIL, "max_notional": FindingOutcome.LIFTED}


def test_a_lift_beside_a_fail_changes_nothing_of_the_answer() -> None:
    verdict = by_person((lift(),), facts={"world": {**gate_cases.WORLD, "market.state": "CLOSED"}})
    assert verdict.decision is Decision.REJECT


def test_a_rule_that_escalates_is_lifted_by_its_id_alone() -> None:
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "action": "SELL"})
    lifts = gate_cases.lifts_of(gate_cases.judge(proposal=asked))
    again = asked.model_copy(update={"by_person": True})
    assert [item.code for item in lifts] == ["R_BUYS_ONLY"]
    assert gate_cases.judge(proposal=again, facts=gate_cases.facts(lifts=lifts)).decision is Decision.ACCEPT


def test_another_number_than_a_limits_is_held_to_what_was_shown() -> None:
    asked = gate_cases.proposal(confidence=0.5)
    shown = lift(check="confidence", code="LOW_CONFIDENCE", subject="", proposed_value="0.3")
    assert (
        gate_cases.judge(proposal=asked, facts=gate_cases.facts(lifts=(shown,))).decision is Decision.ESCALATE
    )


# a limit that moves with the price


def live() -> KindDocument:
    """A kind whose amount is quantity times the live price; 5 shares of 18,950 are 94,750."""
    return gate_cases.kind(
        limits=[
            {
                "id": "max_notional",
                "value": gate_cases.LIVE_NOTIONAL,
                "limit": "manifest.limits.max_notional_cents",
            }
        ]
    )


def sold_at(
    price: Any, *, shown_at: int = 18950, quantity: int = 10, taken: int | None = None
) -> VerdictDocument:
    """A decision at `price` on evidence shown at `shown_at`; on `taken` shares where that is given."""
    in_force = gate_cases.rules(kind=live())
    params = {**gate_cases.PARAMS, "quantity": quantity}
    seen = {**gate_cases.WORLD, "price.AAPL": shown_at}
    shown = gate_cases.judge(
        proposal=gate_cases.proposal(params=params),
        facts=gate_cases.facts(world=seen, seen=seen),
        rules=in_force,
    )
    return gate_cases.judge(
        proposal=gate_cases.proposal(params={**params, "quantity": taken or quantity}, by_person=True),
        facts=gate_cases.facts(
            world={**gate_cases.WORLD, "price.AAPL": price}, seen=seen, lifts=gate_cases.lifts_of(shown)
        ),
        rules=in_force,
    )


@pytest.mark.parametrize("price", [18_856, 18_949, 18_950, 18_951, 19_044])
def test_a_price_within_its_bounds_does_not_take_the_decision_away(price: int) -> None:
    assert sold_at(price).decision is Decision.ACCEPT


def test_a_price_that_carries_the_amount_over_the_limit_within_its_bounds_is_lifted() -> None:
    # 5 shares were 99,900 when shown (another finding was lifted), and are 100,350 now.
    assert sold_at(20_070, shown_at=19_980, quantity=5).decision is Decision.ESCALATE
    lifted = gate_cases.judge(
        proposal=gate_cases.proposal(by_person=True),
        facts=gate_cases.facts(
            world={**gate_cases.WORLD, "price.AAPL": 20_070},
            seen={**gate_cases.WORLD, "price.AAPL": 19_980},
            # Less than the amount is now: as it was shown, it is within the limit.
            lifts=(lift(proposed_value="100001"),),
        ),
        rules=gate_cases.rules(kind=live()),
    )
    assert lifted.decision is Decision.ACCEPT


def test_a_price_past_its_bounds_is_stale_whatever_was_lifted() -> None:
    verdict = sold_at(19_045)
    assert verdict.decision is Decision.REJECT
    assert gate_cases.codes(verdict) == ["STALE_CONTEXT"]


def test_more_shares_than_shown_are_not_lifted_by_a_ticking_price() -> None:
    assert sold_at(19_000, taken=9).decision is Decision.ACCEPT
    assert sold_at(19_000, taken=11).decision is Decision.ESCALATE
    assert sold_at(18_900, taken=11).decision is Decision.ESCALATE


def test_a_fact_that_is_not_depended_on_is_never_taken_as_seen() -> None:
    kind = gate_cases.kind(
        depends_on=["market.state"],
        limits=[
            {
                "id": "max_notional",
                "value": gate_cases.LIVE_NOTIONAL,
                "limit": "manifest.limits.max_notional_cents",
            }
        ],
    )
    verdict = gate_cases.judge(
        proposal=gate_cases.proposal(by_person=True),
        facts=gate_cases.facts(world={**gate_cases.WORLD, "price.AAPL": 40_000}, lifts=(lift(),)),
        rules=gate_cases.rules(kind=kind),
    )
    assert verdict.decision is Decision.ESCALATE


@pytest.mark.parametrize(
    ("value", "bound", "holds"),
    [
        ("1", "1", True),
        (None, None, True),
        ("SAME", "SAME", True),
        ("1", "1.0", True),
        ("0.1", "0.10", True),
        ("2", "1", False),
        ("1", None, False),
        (None, "1", False),
        ("A", "B", False),
        ("NaN", "1", False),
    ],
)
def test_numbers_in_text_are_compared_as_numbers(value: str | None, bound: str | None, holds: bool) -> None:
    assert findings.at_most(value, bound) is holds
