"""The stage `workflow`: a proposal is the instruction PROPOSE, taken from where the flow stands."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.states import Decision
from runtime.contracts.verdict import FindingOutcome
from runtime.contracts.workflow import WorkflowDocument
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.checks import instructions
from runtime.kernel.workflows import steps
from tests.support import gate_cases
from tests.support.workflow_story import document, walk


def judged(workflow: WorkflowDocument, *reported: Any, **fields: Any) -> Any:
    """The verdict on the plain proposal after these steps."""
    facts = gate_cases.facts(workflow=walk(workflow, *reported), **fields.pop("facts", {}))
    return gate_cases.judge(facts=facts, rules=gate_cases.rules(workflow=workflow), **fields)


def test_a_proposal_is_judged_from_where_the_flow_stands() -> None:
    workflow = document()
    assert judged(workflow, "GENERATE", "VERIFY").decision is Decision.ACCEPT
    refused = judged(workflow, "GENERATE")
    assert refused.decision is Decision.REJECT
    (reason,) = refused.reasons
    assert (reason.check, reason.code, reason.subject) == ("workflow", "POLICY_VIOLATION", "graph")


def test_a_proposal_of_a_person_is_not_asked() -> None:
    written = gate_cases.proposal(by_person=True)
    assert judged(document(), "GENERATE", proposal=written).decision is Decision.ACCEPT


def test_a_flow_whose_position_is_unknown_proposes_nothing() -> None:
    rules = gate_cases.rules(workflow=document())
    (finding,) = instructions.check_workflow(gate_cases.case(rules=rules))
    assert (finding.outcome, finding.code) == (FindingOutcome.FAIL, "POLICY_VIOLATION")
    assert list(instructions.check_workflow(gate_cases.case())) == []


@pytest.mark.parametrize(
    ("of", "compute", "above", "escalates"),
    [
        ("tokens", gate_cases.compute(tokens_used=900), 0.1, True),
        ("tokens", gate_cases.compute(tokens_used=899), 0.1, False),
        ("tokens", gate_cases.compute(tokens_cap=None), 1, False),
        ("cost", gate_cases.compute(cost_used_micros=250_000), 0.5, True),
        ("tool_calls", gate_cases.compute(tool_calls_used=9), 0.1, True),
        # The flow is five seconds old, and has sixty left of sixty-five.
        ("wall_clock", gate_cases.compute(), 0.93, True),
        ("wall_clock", gate_cases.compute(), 0.92, False),
        ("wall_clock", gate_cases.compute(ends_at_ms=None), 1, False),
        ("wall_clock", None, 1, False),
        ("escalations", None, 1, True),
        ("escalations", None, 0.9, False),
    ],
)
def test_what_is_left_decides_and_on_fail_asks_a_person(
    of: str, compute: Any, above: float, escalates: bool
) -> None:
    budget = {"id": "b", "checker": "budget", "on": "PROPOSE", "of": of, "above": above}
    workflow = document(checkers=[{**budget, "on_fail": "ESCALATE"}])
    verdict = judged(workflow, "GENERATE", "VERIFY", facts={"compute": compute})
    assert verdict.decision is (Decision.ESCALATE if escalates else Decision.ACCEPT)
    assert [reason.subject for reason in verdict.reasons] == (["b"] if escalates else [])


def test_waiting_for_a_rate_costs_no_attempt() -> None:
    rate = {"id": "rate", "checker": "rate", "on": "PROPOSE", "times": 1, "per_s": 60}
    workflow = document(checkers=[rate])
    asked = steps.Asked(instruction="PROPOSE", now_ms=gate_cases.NOW_MS, input={}, left={})
    fold = steps.permit(workflow, walk(workflow, "GENERATE", "VERIFY"), asked)
    facts = gate_cases.facts(workflow=fold)
    verdict = gate_cases.judge(facts=facts, rules=gate_cases.rules(workflow=workflow))
    assert [reason.code for reason in verdict.reasons] == ["RATE_LIMITED"]
    assert verdict.attempts_left == facts.flow.attempts_allowed


def test_the_params_are_the_input_of_the_step() -> None:
    state = {"id": "s", "checker": "state", "on": "PROPOSE", "require": "input.symbol == 'NONE'"}
    verdict = judged(document(checkers=[state]), "GENERATE", "VERIFY")
    assert [reason.subject for reason in verdict.reasons] == ["s"]


def test_the_stored_input_replays_and_names_no_workflow_where_there_is_none() -> None:
    workflow = document()
    case = gate_cases.case(
        facts=gate_cases.facts(workflow=walk(workflow, "GENERATE")), rules=gate_cases.rules(workflow=workflow)
    )
    stored, in_force = gate_cases.judgement(case)
    verdict = pipeline.judge(case.proposal, case.facts, case.rules, case.now_ms)
    assert pipeline.judge_bytes(stored, in_force) == verdict.to_bytes()
    plain, plain_rules = gate_cases.judgement(gate_cases.case())
    assert "workflow" not in canonical.decode(plain)["facts"]
    assert "workflow" not in canonical.decode(plain_rules)
