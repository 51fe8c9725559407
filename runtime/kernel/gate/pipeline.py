"""The gate (Decision Integrity Module; DIR paper, 6): `judge(proposal, facts, rules, now_ms) -> Verdict`.

Pure: no clock, no database, no randomness. The same four arguments give the same bytes, always.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from pydantic import Field

from audit import canonical
from runtime.contracts.document import Contract
from runtime.contracts.facts import Facts, Lift
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.kernel import salts
from runtime.kernel.gate import findings, preview
from runtime.kernel.gate.checks import advised, capacity, instructions, what, who_and_when
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import FIRST, NEWEST, Case, GateVersion, PolicyBundle, is_first
from runtime.kernel.rules import evaluate


@dataclass(frozen=True)
class Stage:
    """A check and its place. After an integrity stage that rejects, later ones would judge nonsense."""

    name: CheckName
    check: findings.Check
    is_integrity: bool
    # A stage that came later asks only cases that know of it: a stored verdict comes out as it was.
    applies: Callable[[Case], bool] | None = None

    @cached_property
    def passed(self) -> Finding:
        """What is found where nothing speaks against it."""
        return Finding(check=self.name, outcome=FindingOutcome.PASS)


STAGES: tuple[Stage, ...] = (
    Stage(CheckName.SCHEMA, what.check_schema, is_integrity=True),
    Stage(CheckName.AUTHORITY, who_and_when.check_authority, is_integrity=True),
    Stage(CheckName.VALIDITY, who_and_when.check_validity, is_integrity=True),
    Stage(CheckName.RETRIES, who_and_when.check_retries, is_integrity=True),
    Stage(CheckName.CONTEXT_FRESHNESS, who_and_when.check_context_freshness, is_integrity=True),
    Stage(CheckName.CONSTRAINTS, what.check_constraints, is_integrity=False),
    Stage(CheckName.CONDITIONS, what.check_conditions, is_integrity=False),
    Stage(
        CheckName.RED_LINES,
        what.check_red_lines,
        is_integrity=False,
        applies=lambda case: case.gate.has(GateVersion.V1_2) and bool(case.kind.forbidden),
    ),
    Stage(
        CheckName.INVARIANTS,
        what.check_invariants,
        is_integrity=False,
        applies=lambda case: bool(case.kind.safety_assertions),
    ),
    Stage(
        CheckName.EVIDENCE,
        what.check_evidence,
        is_integrity=False,
        applies=lambda case: case.gate.has(GateVersion.V1_2) and bool(case.kind.needs),
    ),
    Stage(
        CheckName.TOOLS,
        what.check_tools,
        is_integrity=False,
        applies=lambda case: bool(case.kind.tools),
    ),
    Stage(
        CheckName.WORKFLOW,
        instructions.check_workflow,
        is_integrity=False,
        applies=lambda case: case.rules.workflow is not None and not case.proposal.by_person,
    ),
    Stage(
        CheckName.BUDGET,
        capacity.check_budget,
        is_integrity=False,
        applies=lambda case: case.facts.compute is not None,
    ),
    Stage(CheckName.RATE, capacity.check_rate, is_integrity=False),
    Stage(CheckName.LIMITS, what.check_limits, is_integrity=False),
    Stage(CheckName.RULES, what.check_rules, is_integrity=False),
    Stage(
        CheckName.RULESETS,
        advised.check_rulesets,
        is_integrity=False,
        applies=lambda case: bool(case.kind.rulesets),
    ),
    Stage(
        CheckName.FOLLOWS_DECISION,
        advised.check_follows_decision,
        is_integrity=False,
        applies=lambda case: case.kind.follows_decision and not case.proposal.by_person,
    ),
    Stage(CheckName.CONFIDENCE, what.check_confidence, is_integrity=False),
    Stage(
        CheckName.AUTONOMY,
        who_and_when.check_autonomy,
        is_integrity=False,
        applies=lambda case: case.facts.autonomy is not None and case.kind.has_effect,
    ),
    Stage(
        CheckName.LABELS,
        who_and_when.check_labels,
        is_integrity=False,
        applies=lambda case: bool(case.manifest.label_rules),
    ),
    Stage(CheckName.APPROVALS, preview.check_approvals, is_integrity=False, applies=preview.needs_people),
    Stage(
        CheckName.RESOURCES,
        capacity.check_resources,
        is_integrity=False,
        applies=lambda case: case.facts.resources is not None,
    ),
    Stage(CheckName.CONSEQUENCE, preview.check_consequence, is_integrity=False),
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
        if stage.applies is not None and not stage.applies(case):
            continue
        answers = list(stage.check(case))
        if not answers:
            walked.append(stage.passed)
            continue
        walked.extend(answers)
        if stage.is_integrity and any(answer.outcome is FindingOutcome.FAIL for answer in answers):
            break
    found = _lift(case, tuple(walked))
    if _decide(found) is Decision.ESCALATE:
        found = (*found, *capacity.check_escalation_budget(case))
    decision = _decide(found)
    # Where nothing but the rate limit speaks against it, the same proposal is good in a minute.
    failed = {finding.code for finding in found if finding.outcome is FindingOutcome.FAIL}
    only_waits = gate.has(GateVersion.V1_1) and failed == {Reason.RATE_LIMITED}
    spends_attempt = decision is Decision.REJECT and not proposal.by_person and not only_waits
    used = facts.flow.attempts_used + spends_attempt
    exhausted = spends_attempt and used >= facts.flow.attempts_allowed
    if exhausted and not any(finding.check == CheckName.RETRIES and finding.code for finding in found):
        found = (*found, who_and_when.exhaustion(case))
    accepted = decision is Decision.ACCEPT
    return VerdictDocument(
        gate_version=gate,
        decision=decision,
        findings=found,
        impact=case.impact,
        effect=preview.effect(case),
        predicted=preview.predicted(case),
        steps=case.calls if accepted else (),
        attempts_left=max(0, facts.flow.attempts_allowed - used),
        exhausted=exhausted,
        claims=capacity.claims(case) if accepted else (),
        figures=preview.figures(case),
        calibrated=case.calibrated,
        salt=salts.derive(proposal.salt, of="verdict"),
    )


def judge_bytes(judgement: bytes, rules_in_force: bytes) -> bytes:
    """Judge what is stored: canonical bytes in, canonical bytes out. Replay is this function again.

    Raises:
        ValueError: when the rules are not those that the judgement names.
    """
    asked = Judgement.from_bytes(judgement)
    if canonical.digest(rules_in_force) != asked.rules_digest:
        raise ValueError("the rules are not those that were in force")
    rules = rules_of(rules_in_force)
    return judge(asked.proposal, asked.facts, rules, asked.now_ms, asked.gate_version).to_bytes()


@lru_cache(maxsize=256)
def rules_of(body: bytes) -> PolicyBundle:
    """The rules of their stored bytes, read once: most judgements are under rules that judged before.

    Raises:
        ValueError: when the bytes are no rules.
    """
    return PolicyBundle.from_bytes(body)


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
    as_seen = {item.subject: item for item in what.check_limits(replace(case, facts=facts))}
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
    return findings.at_most(finding.proposed_value, lift.proposed_value) or (
        finding.check == CheckName.LIMITS
        and (as_seen is None or findings.at_most(as_seen.proposed_value, lift.proposed_value))
    )
