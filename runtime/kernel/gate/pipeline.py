"""The gate (Decision Integrity Module; DIR paper, 6): `judge(proposal, facts, rules, now_ms) -> Verdict`.

Pure: no clock, no database, no randomness. The same four arguments give the same bytes, always.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pydantic import Field

from audit import canonical
from runtime.contracts.facts import Facts, Lift
from runtime.contracts.policy_kind import Contract
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.kernel.gate import findings, preview
from runtime.kernel.gate.checks import (
    authority,
    budget,
    conditions,
    confidence,
    constraints,
    context_freshness,
    escalation_budget,
    limits,
    rate,
    resources,
    retries,
    rules,
    schema,
    validity,
)
from runtime.kernel.gate.gate_input import FIRST, NEWEST, Case, GateVersion, PolicyBundle, is_first
from runtime.kernel.rules import evaluate


@dataclass(frozen=True)
class Stage:
    """A check and its place. After an integrity stage that rejects, later ones would judge nonsense."""

    name: str
    check: findings.Check
    is_integrity: bool
    # A stage that came later asks only cases that know of it: a stored verdict comes out as it was.
    applies: Callable[[Case], bool] = lambda case: True


STAGES: tuple[Stage, ...] = (
    Stage(schema.NAME, schema.check, is_integrity=True),
    Stage(authority.NAME, authority.check, is_integrity=True),
    Stage(validity.NAME, validity.check, is_integrity=True),
    Stage(retries.NAME, retries.check, is_integrity=True),
    Stage(context_freshness.NAME, context_freshness.check, is_integrity=True),
    Stage(constraints.NAME, constraints.check, is_integrity=False),
    Stage(conditions.NAME, conditions.check, is_integrity=False),
    Stage(budget.NAME, budget.check, is_integrity=False, applies=budget.applies),
    Stage(rate.NAME, rate.check, is_integrity=False),
    Stage(limits.NAME, limits.check, is_integrity=False),
    Stage(rules.NAME, rules.check, is_integrity=False),
    Stage(confidence.NAME, confidence.check, is_integrity=False),
    Stage(resources.NAME, resources.check, is_integrity=False, applies=resources.applies),
    Stage(preview.NAME, preview.check, is_integrity=False),
)


class Judgement(Contract):
    """The whole input of a verdict as it is stored; the rules stand beside it, by their digest.

    What was stored before there was a second gate names none.
    """

    proposal: ProposalDocument
    facts: Facts
    now_ms: int
    rules_digest: str
    gate_version: GateVersion = Field(default=FIRST, exclude_if=is_first)


def judge(
    proposal: ProposalDocument,
    facts: Facts,
    rules_in_force: PolicyBundle,
    now_ms: int,
    gate: GateVersion = NEWEST,
) -> VerdictDocument:
    """The verdict. Any FAIL rejects, else any REFER escalates, else it is an ACCEPT (fail closed: 01, 5)."""
    case = Case(proposal=proposal, facts=facts, rules=rules_in_force, now_ms=now_ms, gate=gate)
    walked: list[Finding] = []
    for stage in STAGES:
        if not stage.applies(case):
            continue
        answers = list(stage.check(case))
        walked.extend(answers or [findings.passed(stage.name)])
        if stage.is_integrity and findings.is_rejected(answers):
            break
    found = _lift(case, tuple(walked))
    if _decide(found) is Decision.ESCALATE:
        found = (*found, *escalation_budget.check(case))
    decision = _decide(found)
    # Where nothing but the rate limit speaks against it, the same proposal is good in a minute.
    failed = {finding.code for finding in found if finding.outcome is FindingOutcome.FAIL}
    only_waits = gate.has(GateVersion.V1_1) and failed == {Reason.RATE_LIMITED}
    spends_attempt = decision is Decision.REJECT and not proposal.by_person and not only_waits
    used = facts.flow.attempts_used + spends_attempt
    exhausted = spends_attempt and used >= facts.flow.attempts_allowed
    if exhausted and not any(finding.check == retries.NAME and finding.code for finding in found):
        found = (*found, retries.exhaustion(case))
    accepted = decision is Decision.ACCEPT
    return VerdictDocument(
        gate_version=gate,
        decision=decision,
        findings=found,
        impact=preview.impact(case),
        effect=preview.effect(case),
        predicted=preview.predicted(case),
        steps=preview.steps(case) if accepted else (),
        attempts_left=max(0, facts.flow.attempts_allowed - used),
        exhausted=exhausted,
        claims=resources.claims(case) if accepted else (),
        figures=preview.figures(case),
    )


def judge_bytes(judgement: bytes, rules_in_force: bytes) -> bytes:
    """Judge what is stored: canonical bytes in, canonical bytes out. Replay is this function again.

    Raises:
        ValueError: when the rules are not those that the judgement names.
    """
    asked = Judgement.from_bytes(judgement)
    if canonical.digest(rules_in_force) != asked.rules_digest:
        raise ValueError("the rules are not those that were in force")
    verdict = judge(
        asked.proposal, asked.facts, PolicyBundle.from_bytes(rules_in_force), asked.now_ms, asked.gate_version
    )
    return verdict.to_bytes()


def _decide(found: Iterable[Finding]) -> Decision:
    outcomes = {finding.outcome for finding in found}
    if not outcomes or FindingOutcome.FAIL in outcomes:
        return Decision.REJECT
    return Decision.ESCALATE if FindingOutcome.REFER in outcomes else Decision.ACCEPT


def _lift(case: Case, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """A person lifts the REFER findings that were shown, up to the value that was shown; never a FAIL."""
    lifts = case.facts.lifts
    if not lifts or not any(finding.outcome is FindingOutcome.REFER for finding in found):
        return found
    # The limits are asked of the case with each fact that moved within its bounds as it was seen. Without it
    # a ticking price would carry an amount past the one that was shown, and no person could decide.
    judged = evaluate.judge_freshness(
        case.kind,
        params=case.proposal.params,
        constraints=case.proposal.execution_constraints,
        seen={} if case.facts.snapshot is None else case.facts.snapshot.facts,
        current=case.facts.world,
    )
    moved = {item.fact: item.seen for item in judged if item.move is evaluate.Move.WITHIN_BOUNDS}
    facts = case.facts.model_copy(update={"world": {**case.facts.world, **moved}})
    as_seen = {item.subject: item for item in limits.check(replace(case, facts=facts))}
    return tuple(
        finding.model_copy(update={"outcome": FindingOutcome.LIFTED})
        if finding.outcome is FindingOutcome.REFER
        and any(_covers(lift, finding, as_seen.get(finding.subject)) for lift in lifts)
        else finding
        for finding in found
    )


def _covers(lift: Lift, finding: Finding, as_seen: Finding | None) -> bool:
    if (lift.check, lift.code, lift.subject) != (finding.check, finding.code, finding.subject):
        return False
    return preview.at_most(finding.proposed_value, lift.proposed_value) or (
        finding.check == limits.NAME
        and (as_seen is None or preview.at_most(as_seen.proposed_value, lift.proposed_value))
    )
