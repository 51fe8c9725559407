"""What Cedar policies say of a case is asked before it is judged, and is a fact of it from then on."""

from dataclasses import replace
from typing import Any

from runtime.contracts.ruleset import PolicyAnswer
from runtime.contracts.states import Decision
from runtime.kernel.gate import cedar_facts
from runtime.kernel.gate.checks import advised
from runtime.kernel.gate.gate_input import Case
from tests.support import gate_cases, records_desk
from tests.support.ruleset_cases import document, rule

NAME = "record-access@1.0.0"
POLICY = records_desk.policy("SMALL", "forbid (principal, action, resource) when { context.count > 3 };")


def case(**fields: Any) -> Case:
    """Five shares of AAPL, whose kind names a ruleset that forbids more than three."""
    ruleset = records_desk.ruleset(
        POLICY,
        request={
            "resource": {"type": "Symbol", "id": "symbol"},
            "context": ["count"],
            "must_permit": False,
        },
        features={
            "symbol": {"type": "string", "value": "params.symbol"},
            "count": {"type": "integer", "value": "params.quantity"},
        },
    )
    kind = gate_cases.kind(rulesets=[NAME])
    rules = gate_cases.rules(kind=kind, rulesets=(ruleset, document(rules=[rule("P", "true")])))
    return gate_cases.case(rules=rules, **fields)


def test_the_answers_are_facts_of_the_case() -> None:
    asked = case()
    known = cedar_facts.with_answers(asked)
    assert known.cedar is not None
    assert set(known.cedar) == {NAME}
    answers = known.cedar[NAME]
    assert answers.answers == {"SMALL": PolicyAnswer.FORBIDS}
    assert (answers.agent_id, answers.policy_kind) == (asked.facts.agent.agent_id, asked.kind.kind)
    (found,) = advised.check_rulesets(replace(asked, facts=known))
    assert (found.outcome, found.code, found.subject) == ("FAIL", "RULESET_GUARDRAIL", "record-access:SMALL")


def test_a_case_that_nobody_asked_about_is_not_let_through() -> None:
    (found,) = advised.check_rulesets(case())
    assert found.message == "SMALL: The policy SMALL was not asked of cedarpy 4.12.2."
    asked = case()
    assert gate_cases.judge(rules=asked.rules).decision is Decision.REJECT


def test_what_is_not_evaluated_is_not_asked() -> None:
    unfit = case(proposal=gate_cases.proposal(params={"nothing": "fits"}))
    assert cedar_facts.with_answers(unfit) is unfit.facts
    without = gate_cases.case()
    assert cedar_facts.with_answers(without) is without.facts
