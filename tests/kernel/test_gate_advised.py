"""The stages `rulesets` and `follows_decision`: what was said beforehand is asked again at the gate."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.facts import DecisionFacts
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.checks import advised
from tests.support import gate_cases
from tests.support.ruleset_cases import document, row, rule, table

NAME = "cases@1.0.0"
READ: dict[str, Any] = {
    "score": {"type": "integer", "value": "params.quantity"},
    "region": {"type": "string", "value": "params.symbol"},
}


def bound(*tables: dict[str, Any], **fields: Any) -> RulesetDocument:
    """A ruleset whose features the gate reads from the proposal: 5 shares of AAPL."""
    return document(*tables, **{"features": READ, **fields})


def rules(*rulesets: RulesetDocument, **fields: Any) -> Any:
    """The rules in force, with a kind that names this ruleset."""
    return gate_cases.rules(kind=gate_cases.kind(rulesets=[NAME], **fields), rulesets=rulesets)


def asked(*rulesets: RulesetDocument, **fields: Any) -> list[tuple[str, str, str]]:
    """The outcome, code and subject of what the stage finds."""
    found = advised.check_rulesets(gate_cases.case(rules=rules(*rulesets), **fields))
    return [(one.outcome.value, one.code, one.subject) for one in found]


def test_a_ruleset_that_has_nothing_against_it_is_silent() -> None:
    ruleset = bound(table(row("A", "5"), row("B", "not(5)")), rules=[rule("P", "true", "OTHER")])
    # Rules that are not mandatory are advice, whatever they decide, and so is what they leave open.
    assert asked(bound(table(row("A", "5")))) == []
    assert gate_cases.judge(rules=rules(bound(table(row("A", "9"))))).decision is Decision.ACCEPT
    assert [code for _, code, _ in asked(ruleset)] == ["RULESET_CONFLICT"]


def test_a_kind_without_rulesets_is_not_asked() -> None:
    denying = bound(rules=[rule("P", "true", "DENY", mandatory=True)])
    verdict = gate_cases.judge(rules=gate_cases.rules(rulesets=(denying,)))
    assert verdict.decision is Decision.ACCEPT
    assert "rulesets" not in {finding.check for finding in verdict.findings}


@pytest.mark.parametrize("others", [(), (bound(table(row("A", "-")), version="1.0.1"),)])
def test_a_version_that_is_not_there_rejects(others: tuple[RulesetDocument, ...]) -> None:
    assert asked(*others) == [("FAIL", "RULESET_MISSING", NAME)]
    verdict = gate_cases.judge(rules=rules(*others))
    assert verdict.decision is Decision.REJECT
    assert gate_cases.codes(verdict) == ["RULESET_MISSING"]


@pytest.mark.parametrize(
    "feature",
    [
        {"type": "integer"},
        {"type": "integer", "value": "params.missing"},
        {"type": "integer", "value": "params.symbol"},
        {"type": "integer", "value": "params.quantity == 5"},
        {"type": "integer", "value": "params.quantity / 0"},
        {"type": "string", "value": "params.quantity"},
    ],
)
def test_a_feature_without_a_value_of_its_type_rejects(feature: dict[str, Any]) -> None:
    ruleset = bound(table(row("A", "-"), inputs=["region"]), features={**READ, "extra": feature})
    assert asked(ruleset) == [("FAIL", "RULESET_INCOMPLETE", "cases:extra")]


def test_a_whole_float_is_an_integer_feature() -> None:
    features = {**READ, "score": {"type": "integer", "value": "double(params.quantity)"}}
    assert asked(bound(table(row("A", "5")), features=features)) == []


def test_a_guardrail_rejects() -> None:
    guard = {"id": "G", "forbid": "features.score > 4", "message": "Too many"}
    (found,) = advised.check_rulesets(gate_cases.case(rules=rules(bound(guardrails=[guard]))))
    assert (found.outcome, found.code, found.subject) == (FindingOutcome.FAIL, "RULESET_GUARDRAIL", "cases:G")
    assert found.message == "G: Too many"


def test_a_contradiction_rejects_unless_a_strategy_resolves_it() -> None:
    contradicting = [rule("P", "true", "STOP"), rule("Q", "true", priority=1)]
    assert asked(bound(rules=contradicting)) == [("FAIL", "RULESET_CONFLICT", "cases:P")]
    assert asked(bound(rules=contradicting, strategy=["priority"])) == []


def test_a_mandatory_rule_that_says_no_rejects() -> None:
    denying = rule("P", "features.region == 'AAPL'", "DENY", mandatory=True, justification="Not this one")
    (found,) = advised.check_rulesets(gate_cases.case(rules=rules(bound(rules=[denying]))))
    assert (found.outcome, found.code, found.subject) == (FindingOutcome.FAIL, "RULESET_DENIES", "cases:P")
    assert found.message == "The mandatory rule P says no. Not this one."
    assert asked(bound(rules=[{**denying, "mandatory": False}])) == []
    assert asked(bound(rules=[{**denying, "when": "features.region == 'MSFT'"}])) == []


def test_a_mandatory_rule_that_is_overruled_is_not_asked() -> None:
    denying = rule("P", "true", "DENY", mandatory=True)
    other = rule("Q", "true", priority=1)
    assert asked(bound(rules=[denying, other], strategy=["priority"])) == []


@pytest.mark.parametrize(
    ("action", "params", "is_met"),
    [
        ("ADJUST_POSITION", {}, True),
        ("ADJUST_POSITION", {"quantity": 5, "symbol": "AAPL"}, True),
        ("ADJUST_POSITION", {"quantity": 6}, False),
        ("ADJUST_POSITION", {"quantity": "5"}, False),
        ("ADJUST_POSITION", {"unknown": 5}, False),
        ("REVIEW", {}, False),
    ],
)
def test_a_mandatory_rule_asks_a_person_unless_what_it_asks_for_is_proposed(
    action: str, params: dict[str, Any], is_met: bool
) -> None:
    ruleset = bound(rules=[rule("P", "true", action, params, mandatory=True)])
    assert asked(ruleset) == ([] if is_met else [("REFER", "RULESET_REQUIRES", "cases:P")])
    verdict = gate_cases.judge(rules=rules(ruleset))
    assert verdict.decision is (Decision.ACCEPT if is_met else Decision.ESCALATE)


def test_what_a_mandatory_rule_asks_for_is_said() -> None:
    ruleset = bound(rules=[rule("P", "true", "REVIEW", mandatory=True)])
    (found,) = advised.check_rulesets(gate_cases.case(rules=rules(ruleset)))
    assert found.message == "The mandatory rule P asks for REVIEW."


def follows(decision: DecisionFacts | None) -> list[Finding]:
    """What the stage `follows_decision` finds."""
    return list(advised.check_follows_decision(gate_cases.case(facts=gate_cases.facts(decision=decision))))


def package(**fields: Any) -> DecisionFacts:
    """A package that selected the plain proposal."""
    return DecisionFacts(
        **{
            "decision_id": "dec",
            "action": "ADJUST_POSITION",
            "params": dict(gate_cases.PARAMS),
            "needs_person": False,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("decision", "outcome", "subject"),
    [
        (package(), None, ""),
        (None, FindingOutcome.FAIL, ""),
        (package(action=""), FindingOutcome.FAIL, "dec"),
        (package(action="REVIEW"), FindingOutcome.FAIL, "dec"),
        (package(params={}), FindingOutcome.FAIL, "dec"),
        (package(params={**gate_cases.PARAMS, "quantity": 6}), FindingOutcome.FAIL, "dec"),
        (package(params={}, needs_person=True), FindingOutcome.FAIL, "dec"),
        (package(needs_person=True), FindingOutcome.REFER, "dec"),
    ],
)
def test_a_proposal_is_what_its_package_selected(
    decision: DecisionFacts | None, outcome: FindingOutcome | None, subject: str
) -> None:
    found = follows(decision)
    assert [(one.outcome, one.code, one.subject) for one in found] == (
        [(outcome, "R_FOLLOWS_DECISION", subject)] if outcome else []
    )


def test_what_was_selected_instead_is_said() -> None:
    assert (
        follows(package(action=""))[0].message
        == "The decision package selected nothing, or other parameters."
    )
    assert "selected REVIEW" in follows(package(action="REVIEW"))[0].message


@pytest.mark.parametrize(
    ("kind", "proposal", "decision"),
    [
        ({"follows_decision": True}, {}, Decision.REJECT),
        ({"follows_decision": True}, {"by_person": True}, Decision.ACCEPT),
        ({}, {}, Decision.ACCEPT),
    ],
)
def test_only_agents_follow_packages_and_only_where_the_kind_says_so(
    kind: dict[str, Any], proposal: dict[str, Any], decision: Decision
) -> None:
    in_force = gate_cases.rules(kind=gate_cases.kind(**kind))
    verdict = gate_cases.judge(rules=in_force, proposal=gate_cases.proposal(**proposal))
    assert verdict.decision is decision


def test_the_stored_input_replays_and_names_nothing_where_nothing_was_said() -> None:
    ruleset = bound(table(row("A", "5")), guardrails=[{"id": "G", "forbid": "features.score > 9"}])
    case = gate_cases.case(
        facts=gate_cases.facts(decision=package(needs_person=True)),
        rules=rules(ruleset, follows_decision=True),
    )
    stored, in_force = gate_cases.judgement(case)
    verdict = pipeline.judge(case.proposal, case.facts, case.rules, case.now_ms)
    assert verdict.decision is Decision.ESCALATE
    assert pipeline.judge_bytes(stored, in_force) == verdict.to_bytes()
    plain, plain_rules = gate_cases.judgement(gate_cases.case())
    assert "decision" not in canonical.decode(plain)["facts"]
    assert "rulesets" not in canonical.decode(plain_rules)
