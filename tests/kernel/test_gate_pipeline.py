"""The walk of the gate: which findings stand together, what they lead to, and that bytes stay bytes."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.facts import DecisionFacts, ToolFacts
from runtime.contracts.states import AgentStatus, Decision
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import FIRST, NEWEST, GateVersion, PolicyBundle
from runtime.kernel.rules import scope
from tests.support import gate_cases, ruleset_cases, workflow_story

NAMES: list[str] = [stage.name for stage in pipeline.STAGES]
INTEGRITY = [stage.name for stage in pipeline.STAGES if stage.is_integrity]


FEATURE = {"quantity": {"type": "integer", "value": "params.quantity"}}


def asking_for_a_person(**fields: Any) -> dict[str, Any]:
    """A case that would escalate: low confidence."""
    return {"proposal": gate_cases.proposal(confidence=0.1, **fields)}


def test_the_plain_case_passes_every_stage_in_order() -> None:
    ruleset = ruleset_cases.document(features=FEATURE, guardrails=[{"id": "G", "forbid": "false"}])
    verdict = gate_cases.judge(
        facts=gate_cases.facts(
            compute=gate_cases.compute(),
            resources=(),
            evidence={"step:self_check": 0},
            tools=(ToolFacts(server="notes", tool="search", pinned="ab" * 32),),
            workflow=workflow_story.walk(workflow_story.document(), "GENERATE", "VERIFY"),
            decision=DecisionFacts(
                decision_id="d", action="ADJUST_POSITION", params=gate_cases.PARAMS, needs_person=False
            ),
        ),
        rules=gate_cases.rules(
            workflow=workflow_story.document(),
            rulesets=(ruleset,),
            kind=gate_cases.kind(
                rulesets=[ruleset.name],
                follows_decision=True,
                steps=[{"id": "look", "executor": "mcp", "target": "notes", "tool": {"name": "search"}}],
                red_lines=[{"id": "L", "forbid": "false"}],
                required_evidence=[{"step": "self_check"}],
                safety_assertions=[{"invariant_id": "I", "pinned": {"invariant_id": "I", "require": "true"}}],
            ),
        ),
    )
    assert verdict.decision is Decision.ACCEPT
    # People are asked for by what is not plain, and by a level that was lowered.
    asked = [name for name in NAMES if name not in ("approvals", "autonomy", "labels")]
    assert [item.check for item in verdict.findings] == asked
    assert {item.outcome for item in verdict.findings} == {FindingOutcome.PASS}
    assert verdict.gate_version == NEWEST
    assert verdict.attempts_left == 3
    assert not verdict.exhausted


def test_identity_is_asked_before_anything_else() -> None:
    assert NAMES[: len(INTEGRITY)] == INTEGRITY
    assert INTEGRITY == ["schema", "authority", "validity", "retries", "context_freshness"]


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"rules": gate_cases.rules(kind=None)}, "schema"),
        ({"rules": gate_cases.rules(manifest=None)}, "authority"),
        ({"now_ms": gate_cases.NOW_MS + 60_000}, "validity"),
        ({"facts": gate_cases.facts(attempts_used=3)}, "retries"),
        ({"facts": gate_cases.facts(snapshot=None)}, "context_freshness"),
    ],
)
def test_the_walk_ends_at_an_integrity_stage_that_rejects(fields: dict[str, Any], last: str) -> None:
    verdict = gate_cases.judge(**fields)
    assert verdict.decision is Decision.REJECT
    checks = [item.check for item in verdict.findings]
    assert checks[: NAMES.index(last) + 1] == NAMES[: NAMES.index(last) + 1]
    assert verdict.steps == ()


def test_findings_of_later_stages_are_all_collected() -> None:
    verdict = gate_cases.judge(
        proposal=gate_cases.proposal(
            params={**gate_cases.PARAMS, "notional_cents": 300_000, "action": "SELL"},
            execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": 1},
            confidence=0.2,
        )
    )
    assert verdict.decision is Decision.REJECT
    assert gate_cases.codes(verdict) == [
        "CONSTRAINT_VIOLATED",
        "RISK_LIMIT_EXCEEDED",
        "R_BUYS_ONLY",
        "LOW_CONFIDENCE",
    ]


def test_a_refer_alone_escalates_and_spends_no_attempt() -> None:
    verdict = gate_cases.judge(**asking_for_a_person())
    assert verdict.decision is Decision.ESCALATE
    assert verdict.attempts_left == 3
    assert verdict.steps == ()


def test_an_empty_bucket_turns_an_escalation_into_a_reject() -> None:
    verdict = gate_cases.judge(**asking_for_a_person(), facts=gate_cases.facts(escalation_tokens=0))
    assert verdict.decision is Decision.REJECT
    assert gate_cases.codes(verdict) == ["ESCALATION_BUDGET_EXHAUSTED", "LOW_CONFIDENCE"]


def test_the_bucket_is_not_asked_when_nothing_escalates() -> None:
    assert gate_cases.judge(facts=gate_cases.facts(escalation_tokens=0)).decision is Decision.ACCEPT


def test_the_last_attempt_says_that_it_was_the_last() -> None:
    verdict = gate_cases.judge(
        proposal=gate_cases.proposal(params={}), facts=gate_cases.facts(attempts_used=2)
    )
    assert verdict.exhausted
    assert verdict.attempts_left == 0
    assert gate_cases.codes(verdict)[-1] == "REASONING_EXHAUSTION"


def test_one_attempt_too_many_is_exhaustion_said_once() -> None:
    verdict = gate_cases.judge(facts=gate_cases.facts(attempts_used=3))
    assert verdict.exhausted
    assert verdict.attempts_left == 0
    assert gate_cases.codes(verdict) == ["REASONING_EXHAUSTION"]


def waiting(**changes: Any) -> dict[str, Any]:
    """A case that comes too soon for its manifest, and is good otherwise but for `changes`."""
    return {
        "rules": gate_cases.rules(manifest=gate_cases.manifest(proposals_per_minute=2)),
        "facts": gate_cases.facts(history={"proposals_1m": 2}, attempts_used=2),
        **changes,
    }


@pytest.mark.parametrize(
    ("asked", "costs"),
    [
        ({}, False),
        ({"confidence": 0.1}, False),  # who asks for a person would have got one
        ({"params": {}}, True),
        ({"execution_constraints": {**gate_cases.CONSTRAINTS, "max_price_cents": 1}}, True),
    ],
)
def test_waiting_for_the_rate_limit_alone_costs_no_attempt(asked: dict[str, Any], costs: bool) -> None:
    verdict = gate_cases.judge(**waiting(proposal=gate_cases.proposal(**asked)))
    assert verdict.decision is Decision.REJECT
    assert (verdict.attempts_left, verdict.exhausted) == ((0, True) if costs else (1, False))


def test_at_the_first_gate_it_cost_one() -> None:
    verdict = gate_cases.judge(**waiting(gate=GateVersion.V1_0))
    assert (verdict.attempts_left, verdict.exhausted) == (0, True)
    assert verdict.gate_version == "1.0.0"


def test_a_person_spends_no_attempt_and_is_never_exhausted() -> None:
    verdict = gate_cases.judge(
        proposal=gate_cases.proposal(by_person=True, params={}), facts=gate_cases.facts(attempts_used=3)
    )
    assert verdict.decision is Decision.REJECT
    assert not verdict.exhausted


@pytest.mark.parametrize("findings", [(), (Finding(check="x", outcome=FindingOutcome.FAIL, code="X"),)])
def test_no_findings_at_all_reject_like_a_fail(findings: tuple[Finding, ...]) -> None:
    assert pipeline._decide(findings) is Decision.REJECT


# bytes


def test_what_is_stored_is_judged_to_the_same_bytes_as_what_is_held() -> None:
    for asked in (
        gate_cases.case(),
        gate_cases.case(**asking_for_a_person()),
        gate_cases.case(proposal=gate_cases.proposal(params={"quantity": 1e-7})),
        gate_cases.case(facts=gate_cases.facts(status=AgentStatus.PASSIVE)),
        gate_cases.case(rules=gate_cases.rules(kind=None, manifest=None)),
    ):
        stored, in_force = gate_cases.judgement(asked)
        held = pipeline.judge(asked.proposal, asked.facts, asked.rules, asked.now_ms).to_bytes()
        assert pipeline.judge_bytes(stored, in_force) == held
        assert VerdictDocument.from_bytes(held).to_bytes() == held


def test_a_stored_judgement_without_a_gate_is_of_the_first() -> None:
    asked = gate_cases.case(gate=FIRST)
    stored, in_force = gate_cases.judgement(asked)
    assert b"gate_version" not in stored
    assert VerdictDocument.from_bytes(pipeline.judge_bytes(stored, in_force)).gate_version == FIRST
    assert f'"gate_version":"{NEWEST}"'.encode() in gate_cases.judgement(gate_cases.case())[0]


def test_a_gate_of_the_future_is_refused() -> None:
    stored, in_force = gate_cases.judgement(gate_cases.case())
    with pytest.raises(ValueError, match="gate_version"):
        pipeline.judge_bytes(stored.replace(f'"{NEWEST}"'.encode(), b'"7.0.0"'), in_force)


def test_a_gate_has_what_came_before_it() -> None:
    known = list(GateVersion)
    assert (known[0], known[-1]) == (FIRST, NEWEST)
    for at, version in enumerate(known):
        assert [version.has(feature) for feature in known] == [number <= at for number in range(len(known))]


def test_other_rules_than_those_in_force_are_refused() -> None:
    stored, _ = gate_cases.judgement(gate_cases.case())
    other = gate_cases.rules(manifest=gate_cases.manifest(version="2.0.0")).to_bytes()
    with pytest.raises(ValueError, match="not those that were in force"):
        pipeline.judge_bytes(stored, other)


def test_rules_that_are_kept_answer_for_no_others() -> None:
    bounded = gate_cases.rules(manifest=gate_cases.manifest(policy_kinds=()))
    free, held = (
        gate_cases.judgement(gate_cases.case(rules=rules)) for rules in (gate_cases.rules(), bounded)
    )
    for _ in range(2):
        said = [VerdictDocument.from_bytes(pipeline.judge_bytes(*asked)).decision for asked in (free, held)]
        assert said == [Decision.ACCEPT, Decision.REJECT]


def test_no_float_enters_the_numbers_of_a_finding() -> None:
    verdict = gate_cases.judge(**asking_for_a_person())
    (finding,) = verdict.reasons
    assert (finding.proposed_value, finding.limit) == ("0.1", "0.7")


def test_the_case_has_no_kind_and_no_manifest_to_offer_where_there_are_none() -> None:
    bare = gate_cases.case(rules=gate_cases.rules(kind=None, manifest=None))
    with pytest.raises(LookupError):
        _ = bare.kind
    with pytest.raises(LookupError):
        _ = bare.manifest


def test_expressions_see_every_name_of_the_table() -> None:
    asked = gate_cases.case(facts=gate_cases.facts(history={"proposals_1m": 1}, compute=gate_cases.compute()))
    assert set(asked.names) == scope.JUDGED
    for root in ("flow", "agent", "budget", "time", "manifest", "context"):
        assert set(asked.names[root]) == scope.FIELDS[root]
    assert asked.names["flow"]["age_s"] == 5
    assert asked.names["history"] == {"proposals_1m": 1}
    assert gate_cases.case().names["history"] == {}
    assert asked.names["context"]["facts"]["price"]["AAPL"] == 18950


def test_a_flow_opened_in_the_future_is_no_seconds_old() -> None:
    assert gate_cases.case(now_ms=0).names["flow"]["age_s"] == 0


def test_canonical_input_survives_a_second_writing() -> None:
    stored, in_force = gate_cases.judgement(gate_cases.case())
    assert pipeline.Judgement.from_bytes(stored).to_bytes() == stored
    assert PolicyBundle.from_bytes(in_force).to_bytes() == in_force
    assert canonical.encode(canonical.decode(stored)) == stored
