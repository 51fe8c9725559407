"""The level of autonomy before the gate: a person, or nobody, lets a lowered agent have an effect."""

from typing import Any

import pytest

from runtime.contracts.facts import Facts
from runtime.contracts.states import AutonomyLevel, Decision
from runtime.contracts.verdict import FindingOutcome, VerdictDocument
from tests.support import gate_cases

SUPERVISED, READ_ONLY = AutonomyLevel.SUPERVISED, AutonomyLevel.READ_ONLY
# Nothing runs and nothing is reserved: what it records is all there is.
EFFECTLESS = gate_cases.kind(steps=[])


def judge(level: AutonomyLevel | None, **fields: Any) -> VerdictDocument:
    known = fields.pop("facts", {})
    return gate_cases.judge(facts=gate_cases.facts(autonomy=level, **known), **fields)


def codes(verdict: VerdictDocument) -> list[str]:
    return [finding.code for finding in verdict.reasons]


def test_an_autonomous_agent_is_judged_as_before() -> None:
    facts = gate_cases.facts(autonomy=None)
    assert b"autonomy" not in facts.to_bytes()
    assert Facts.from_bytes(facts.to_bytes()) == facts
    verdict = judge(None)
    assert verdict.decision is Decision.ACCEPT
    assert "autonomy" not in {finding.check for finding in verdict.findings}


def test_a_supervised_agent_asks_a_person_for_every_effect() -> None:
    verdict = judge(SUPERVISED)
    assert (verdict.decision, codes(verdict)) == (Decision.ESCALATE, ["AGENT_SUPERVISED"])


def test_a_read_only_agent_has_no_effect() -> None:
    verdict = judge(READ_ONLY)
    assert (verdict.decision, codes(verdict)) == (Decision.REJECT, ["AGENT_READ_ONLY"])
    assert verdict.steps == ()


@pytest.mark.parametrize("level", [SUPERVISED, READ_ONLY])
def test_what_has_no_effect_is_judged_as_ever(level: AutonomyLevel) -> None:
    verdict = judge(level, rules=gate_cases.rules(kind=EFFECTLESS))
    assert verdict.decision is Decision.ACCEPT


def test_a_claim_on_a_resource_is_an_effect() -> None:
    assert not EFFECTLESS.has_effect
    assert gate_cases.kind(steps=[], claims=[{"resource": "desk", "amount": "1"}]).has_effect
    assert gate_cases.kind().has_effect


def test_an_override_lifts_what_was_shown() -> None:
    shown = judge(SUPERVISED)
    verdict = judge(
        SUPERVISED,
        proposal=gate_cases.proposal(),
        facts={"lifts": gate_cases.lifts_of(shown)},
    )
    assert verdict.decision is Decision.ACCEPT
    assert [item.code for item in verdict.findings if item.outcome is FindingOutcome.LIFTED] == [
        "AGENT_SUPERVISED"
    ]


def test_a_person_is_not_asked_again_and_cannot_act_for_a_read_only_agent() -> None:
    by_person = gate_cases.proposal(by_person=True, author="user:1")
    assert judge(SUPERVISED, proposal=by_person).decision is Decision.ACCEPT
    refused = judge(READ_ONLY, proposal=by_person)
    assert (refused.decision, codes(refused)) == (Decision.REJECT, ["AGENT_READ_ONLY"])


def test_other_findings_stand_beside_it() -> None:
    proposal = gate_cases.proposal(params={**gate_cases.PARAMS, "action": "SELL"})
    assert codes(judge(SUPERVISED, proposal=proposal)) == ["R_BUYS_ONLY", "AGENT_SUPERVISED"]
