"""Claims against capacities: contention and shortage told apart (ADR 0010)."""

from typing import Any

import pytest

from runtime.contracts.facts import ResourceFacts
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import ResourceClaim
from tests.support import gate_cases


def resource(name: str = "cash", *, reserved: int = 0, committed: int = 0) -> ResourceFacts:
    return ResourceFacts(name=name, unit="cents", capacity=100, reserved=reserved, committed=committed)


def judge(*resources: ResourceFacts, claims: list[tuple[str, str]], **fields: Any) -> Any:
    kind = gate_cases.kind(claims=[{"resource": name, "amount": amount} for name, amount in claims])
    return gate_cases.judge(
        rules=gate_cases.rules(kind=kind), facts=gate_cases.facts(resources=resources), **fields
    )


def test_a_claim_that_fits_is_accepted_and_said() -> None:
    verdict = judge(resource(reserved=30, committed=10), claims=[("cash", "60")])
    assert verdict.decision == "ACCEPT"
    assert verdict.claims == (ResourceClaim(resource="cash", amount=60),)


def test_a_claim_that_would_fit_but_for_others_is_contention() -> None:
    verdict = judge(resource(reserved=31, committed=10), claims=[("cash", "60")])
    assert gate_cases.codes(verdict) == [Reason.RESOURCE_CONTENTION]
    assert (verdict.reasons[0].proposed_value, verdict.reasons[0].limit) == ("60", "59")
    assert verdict.claims == ()


def test_a_claim_of_all_that_others_hold_is_contention_still() -> None:
    verdict = judge(resource(reserved=1, committed=40), claims=[("cash", "60")])
    assert gate_cases.codes(verdict) == [Reason.RESOURCE_CONTENTION]


def test_a_claim_that_would_not_fit_even_then_is_a_shortage() -> None:
    verdict = judge(resource(reserved=31, committed=41), claims=[("cash", "60")])
    assert gate_cases.codes(verdict) == [Reason.INSUFFICIENT_LIQUIDITY]
    assert (verdict.reasons[0].proposed_value, verdict.reasons[0].limit) == ("60", "59")


def test_claims_on_one_resource_add_up_and_nothing_is_left_out() -> None:
    verdict = judge(
        resource(), resource("slots"), claims=[("slots", "0"), ("cash", "30"), ("cash", "params.quantity")]
    )
    assert verdict.claims == (ResourceClaim(resource="cash", amount=35),)


def test_claims_stand_in_the_order_of_names() -> None:
    verdict = judge(resource("b"), resource("a"), claims=[("b", "1"), ("a", "2")])
    assert [claim.resource for claim in verdict.claims] == ["a", "b"]


@pytest.mark.parametrize(
    "amount",
    ["-1", "1.5", "true", "'60'", "params.nothing", "9007199254740991 + 1", "9007199254740991", "1 / 0"],
)
def test_an_amount_that_is_no_whole_number_fails(amount: str) -> None:
    verdict = judge(resource(), claims=[("cash", "1"), ("cash", amount)])
    assert verdict.decision == "REJECT"
    assert gate_cases.codes(verdict) == [Reason.CLAIM_FAILED]
    assert verdict.reasons[0].subject == "cash"


def test_a_resource_that_is_not_there_fails() -> None:
    assert gate_cases.codes(judge(claims=[("gold", "1")])) == [Reason.CLAIM_FAILED]


def test_a_rejected_proposal_takes_nothing() -> None:
    verdict = judge(resource(), claims=[("cash", "1")], proposal=gate_cases.proposal(confidence=0.1))
    assert verdict.decision == "ESCALATE"
    assert verdict.claims == ()


def test_the_budget_is_asked_of_agents_and_not_of_people() -> None:
    spent = gate_cases.facts(compute=gate_cases.compute(tokens_used=1_001))
    verdict = gate_cases.judge(facts=spent)
    assert gate_cases.codes(verdict) == [Reason.BUDGET_EXCEEDED]
    assert (verdict.reasons[0].proposed_value, verdict.reasons[0].limit) == ("1001", "1000")
    by_person = gate_cases.judge(facts=spent, proposal=gate_cases.proposal(by_person=True))
    assert by_person.decision == "ACCEPT"
    assert gate_cases.judge(facts=gate_cases.facts(compute=gate_cases.compute())).decision == "ACCEPT"


def test_a_case_from_before_resources_is_judged_as_it_was() -> None:
    kind = gate_cases.kind(claims=[{"resource": "cash", "amount": "60"}])
    verdict = gate_cases.judge(rules=gate_cases.rules(kind=kind))
    assert verdict.decision == "ACCEPT"
    assert verdict.claims == ()
    assert "resources" not in [finding.check for finding in verdict.findings]
