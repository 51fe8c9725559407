"""The gate on anything an agent can send: it answers, always the same, and never yes by accident."""

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import canonical
from runtime.contracts.facts import Lift
from runtime.contracts.states import AgentStatus, Decision
from runtime.contracts.verdict import FindingOutcome, VerdictDocument
from runtime.kernel.gate import findings, pipeline, recheck
from runtime.kernel.gate.gate_input import Case
from tests.support import gate_cases, hostile_values

FAIL, REFER, LIFTED = FindingOutcome.FAIL, FindingOutcome.REFER, FindingOutcome.LIFTED

versions = st.sampled_from([*[None] * 15, "1.0.0", "1.2", "9.9.9", "", "\u0661.0.0"])
lifts = st.one_of(
    st.builds(
        Lift,
        check=st.just("limits"),
        code=st.just("RISK_LIMIT_EXCEEDED"),
        subject=st.sampled_from(["amount", "fee", "max_notional"]),
        proposed_value=st.one_of(
            st.sampled_from(["100001", "150000", "300000", "0.5", None]),
            hostile_values.numbers.map(str),
            hostile_values.texts,
        ),
    ),
    st.builds(
        Lift,
        check=st.sampled_from(["rules", "schema"]),
        code=st.sampled_from(["R_ANY", "R_BUYS_ONLY", "INVALID_SCHEMA"]),
        subject=st.just(""),
        proposed_value=st.none(),
    ),
)
facts = st.builds(
    gate_cases.facts,
    status=st.sampled_from([*[AgentStatus.ACTIVE] * 8, *AgentStatus]),
    attempts_used=st.sampled_from([0, 0, 0, 1, 2, 3]),
    world=st.one_of(st.just(gate_cases.WORLD), hostile_values.worlds),
    seen=st.one_of(st.just(gate_cases.WORLD), hostile_values.worlds),
    session_valid=st.sampled_from([True] * 9 + [False]),
    escalation_tokens=st.integers(0, 3),
    history=st.one_of(st.none(), st.just({"proposals_1m": 1})),
    lifts=st.lists(lifts, max_size=3).map(tuple),
)
# Here everything holds that is not the agent's to say.
willing = st.builds(
    gate_cases.facts, escalation_tokens=st.integers(0, 1), lifts=st.lists(lifts, max_size=3).map(tuple)
)
manifests = st.sampled_from(
    [
        *[gate_cases.manifest()] * 5,
        gate_cases.manifest(limits={}, escalate_below_confidence=1),
        gate_cases.manifest(scope={"symbol": ["AAPL"]}, proposals_per_minute=1),
        None,
    ]
)


def _cases(params: st.SearchStrategy[Any], kinds: list[Any]) -> st.SearchStrategy[Case]:
    proposals = st.builds(
        gate_cases.proposal,
        params=params,
        execution_constraints=hostile_values.constraints,
        by_person=st.booleans(),
        policy_version=versions,
        confidence=st.one_of(st.none(), st.floats(0, 1), st.floats(0.7, 1)),
        human_review_required=st.sampled_from([False, False, True]),
        conditions=st.sampled_from([*[()] * 6, ("params.quantity == 5",), ("1 / 0 == 1", "${x}")]),
        expected_effects=hostile_values.values,
        valid_until_ms=st.sampled_from([gate_cases.NOW_MS - 1, *[gate_cases.NOW_MS + 9] * 9]),
    )
    in_force = st.builds(gate_cases.rules, kind=st.sampled_from(kinds), manifest=manifests)
    return st.builds(
        gate_cases.case, proposal=proposals, facts=st.one_of(willing, willing, facts), rules=in_force
    )


cases = st.one_of(
    _cases(hostile_values.params, [gate_cases.kind(), gate_cases.kind(), None]),
    _cases(hostile_values.open_params, [hostile_values.OPEN, hostile_values.LOOSE, hostile_values.LOOSE]),
)


def judged(asked: Case) -> VerdictDocument:
    """The verdict on a case."""
    return pipeline.judge(asked.proposal, asked.facts, asked.rules, asked.now_ms)


@settings(deadline=None, max_examples=300)
@given(cases)
def test_it_answers_whatever_is_asked_and_the_answer_can_be_stored(asked: Case) -> None:
    stored, in_force = gate_cases.judgement(asked)
    body = pipeline.judge_bytes(stored, in_force)
    verdict = VerdictDocument.from_bytes(body)
    assert verdict.to_bytes() == body
    assert canonical.encode([step.model_dump(mode="json") for step in verdict.steps])
    assert canonical.encode([item.model_dump(mode="json") for item in verdict.predicted])


@settings(deadline=None, max_examples=200)
@given(cases)
def test_the_same_input_gives_the_same_bytes(asked: Case) -> None:
    stored, in_force = gate_cases.judgement(asked)
    once = pipeline.judge_bytes(stored, in_force)
    assert pipeline.judge_bytes(stored, in_force) == once
    assert judged(asked).to_bytes() == once
    assert pipeline.Judgement.from_bytes(stored).to_bytes() == stored


@settings(deadline=None, max_examples=200)
@given(cases)
def test_any_fail_rejects_and_only_a_clean_walk_accepts(asked: Case) -> None:
    verdict = judged(asked)
    outcomes = {item.outcome for item in verdict.findings}
    assert outcomes
    if FAIL in outcomes:
        assert verdict.decision is Decision.REJECT
    elif REFER in outcomes:
        assert verdict.decision is Decision.ESCALATE
    else:
        assert verdict.decision is Decision.ACCEPT
        asking = {stage.name for stage in pipeline.STAGES if stage.applies is None or stage.applies(asked)}
        assert {item.check for item in verdict.findings} == asking
    assert bool(verdict.steps) <= (verdict.decision is Decision.ACCEPT)


@settings(deadline=None, max_examples=200)
@given(cases)
def test_an_accepted_proposal_is_of_an_agent_and_a_context_that_hold(asked: Case) -> None:
    if judged(asked).decision is Decision.ACCEPT:
        barred = {AgentStatus.LOCKED, AgentStatus.SUSPENDED, AgentStatus.RETIRED}
        assert asked.facts.agent.status not in barred
        assert asked.facts.agent.status is AgentStatus.ACTIVE or asked.proposal.by_person
        assert asked.facts.session_valid
        assert asked.facts.snapshot is not None
        assert asked.now_ms <= asked.proposal.valid_until_ms
        assert asked.facts.flow.attempts_used < asked.facts.flow.attempts_allowed or asked.proposal.by_person


@settings(deadline=None, max_examples=300)
@given(cases)
def test_a_lift_lifts_no_fail_and_no_larger_value(asked: Case) -> None:
    bare = asked.facts.model_copy(update={"lifts": ()})
    before = {
        (item.check, item.code, item.subject, item.message): item
        for item in judged(
            Case(proposal=asked.proposal, facts=bare, rules=asked.rules, now_ms=asked.now_ms)
        ).findings
    }
    for item in judged(asked).findings:
        if item.outcome is LIFTED:
            assert before[(item.check, item.code, item.subject, item.message)].outcome is REFER
            # The world of these cases is the one that was seen, so no tick excuses a larger value.
            if asked.facts.snapshot is not None and asked.facts.snapshot.facts == asked.facts.world:
                assert any(
                    (lift.check, lift.code, lift.subject) == (item.check, item.code, item.subject)
                    and findings.at_most(item.proposed_value, lift.proposed_value)
                    for lift in asked.facts.lifts
                )


@settings(deadline=None)
@given(amount=st.integers(1, 10**9), shown=st.integers(1, 10**9))
def test_a_person_gets_no_more_than_was_shown(amount: int, shown: int) -> None:
    lift = Lift(check="limits", code="RISK_LIMIT_EXCEEDED", subject="max_notional", proposed_value=str(shown))
    verdict = gate_cases.judge(
        proposal=gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": amount}, by_person=True),
        facts=gate_cases.facts(lifts=(lift,)),
    )
    assert (verdict.decision is Decision.ACCEPT) is (amount <= max(100_000, shown))


@settings(deadline=None, max_examples=200)
@given(asked=cases, world=hostile_values.worlds, now_ms=st.integers(0, gate_cases.NOW_MS * 2))
def test_the_second_look_answers_too(asked: Case, world: dict[str, Any], now_ms: int) -> None:
    if asked.rules.kind is None or asked.rules.manifest is None:
        return
    stored, _ = gate_cases.judgement(asked)
    again = [
        recheck.recheck(pipeline.Judgement.from_bytes(stored), asked.rules, world=world, now_ms=now_ms)
        for _ in range(2)
    ]
    assert again[0] == again[1]
    assert all(item.outcome is FAIL for item in again[0])


PRINT_DIGEST = """
import hashlib
from tests.golden import history, scenarios
print(hashlib.sha256("".join(
    history.read(name).again() + history.of(scenarios.case(name)).verdict for name in history.recorded()
).encode()).hexdigest())
"""


@pytest.mark.slow
def test_every_process_gives_the_same_bytes_whatever_its_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "42", "4294967295")
    }
    assert len(digests) == 1
