"""The second look, inside the worker's claim: what may have changed since the verdict (DIR paper, 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contracts.facts import Facts
from runtime.contracts.policy_kind import InvariantPlace
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate import findings
from runtime.kernel.gate.checks import what, who_and_when
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case, GateVersion, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.rules import safety


@dataclass(frozen=True, kw_only=True)
class Withdrawn:
    """What the rules in force no longer grant of what was accepted under others; nothing where all is."""

    findings: tuple[Finding, ...]
    rules: PolicyBundle

    @property
    def is_final(self) -> bool:
        """Whether no person can lift it: the kind or the right to it is gone, or a hard limit is crossed."""
        return any(item.outcome is FindingOutcome.FAIL for item in self.findings)

    @property
    def worst(self) -> Finding:
        """The finding that weighs most."""
        return min(self.findings, key=lambda item: item.outcome is not FindingOutcome.FAIL)

    @property
    def code(self) -> str:
        """The reason code of the worst finding."""
        return self.worst.code


def recheck(
    judgement: Judgement,
    rules_then: PolicyBundle,
    *,
    world: Mapping[str, Any],
    evidence: Mapping[str, int] | None = None,
    now_ms: int,
    unsafe: str = "",
    between: bool = False,
) -> tuple[Finding, ...]:
    """What no longer holds: the window, the agent's bounds, red lines, evidence, invariants, its facts.

    Empty when all does. The rules are those of the verdict; only the world, the `evidence` that they ask for
    and the moment are new. Rules and conditions that
    could keep everything else waiting are not asked: `unsafe` says why. `between` says that a step is done
    already: an invariant that is asked between steps pauses there, so it is not asked here as well.
    """
    if unsafe:
        said = f"What was accepted is not asked again: {unsafe}."
        return (findings.fail(CheckName.SCHEMA, Reason.KIND_UNSAFE, said),)
    case = as_of_now(judgement, rules_then, world=world, evidence=evidence, now_ms=now_ms)
    snapshot = case.facts.snapshot
    stale = () if snapshot is None else who_and_when.stale(case, seen=snapshot.facts)
    return (
        *who_and_when.check_validity(case),
        *what.check_constraints(case),
        *what.check_conditions(case),
        *_spec(case),
        *_invariants(case, between=between),
        *stale,
    )


def as_of_now(
    judgement: Judgement,
    rules_then: PolicyBundle,
    *,
    world: Mapping[str, Any],
    evidence: Mapping[str, int] | None = None,
    now_ms: int,
) -> Case:
    """What was judged, with the facts of `world` and at the moment of now."""
    return Case(
        proposal=judgement.proposal,
        facts=judgement.facts.model_copy(update={"world": dict(world), "evidence": evidence}),
        rules=rules_then,
        now_ms=now_ms,
        gate=judgement.gate_version,
    )


def withdrawn(
    judgement: Judgement, in_force: PolicyBundle, *, known: Facts, lifted: Sequence[Finding], now_ms: int
) -> Withdrawn:
    """Authority, scope and limits of an accepted proposal, asked again of the rules in force.

    `known` are the facts of now; those that the gate saw count as they were, since whether they moved is
    asked apart. The agent's status holds a call back by itself and is not judged. `lifted` are the findings
    that a person has lifted: they stay so up to the value, and down to the limit, that the person saw.
    """
    facts = known.model_copy(
        update={
            "world": {**known.world, **judgement.facts.world},
            "history": known.history if judgement.facts.history is None else judgement.facts.history,
            "steps": judgement.facts.steps,
            # What it has received since cannot have steered it then.
            "labels": judgement.facts.labels,
            "agent": known.agent.model_copy(update={"status": AgentStatus.ACTIVE}),
            "session_valid": True,
        }
    )
    case = Case(
        proposal=judgement.proposal,
        facts=facts,
        rules=in_force,
        now_ms=now_ms,
        gate=judgement.gate_version,
    )
    return Withdrawn(
        findings=tuple(item for item in _against(case) if not _is_lifted(item, lifted)), rules=in_force
    )


def _against(case: Case) -> tuple[Finding, ...]:
    """A new version of the kind may read other parameters: what was accepted is not refused by its schema.

    But what its limits cost is bounded for values that fit, and what they would say of others means nothing:
    so a person decides instead, for this version.
    """
    if case.rules.kind is None or case.facts.unsafe is not None:
        return tuple(what.check_schema(case))
    kind, asked = case.kind, case.proposal
    refused = tuple(who_and_when.check_authority(case))
    if refused or not (kind.limits or kind.forbidden or kind.needs or kind.safety_assertions):
        return refused
    if not safety.fits(kind, params=asked.params, constraints=asked.execution_constraints):
        version = f"{kind.kind} {kind.version}"
        said = f"What was accepted no longer fits {version}: its limits cannot be checked."
        return (findings.refer(CheckName.SCHEMA, Reason.INVALID_SCHEMA, said, subject=version),)
    return (
        *what.check_red_lines(case),
        *what.check_invariants(case),
        *what.check_evidence(case),
        *what.check_limits(case),
    )


def _spec(case: Case) -> tuple[Finding, ...]:
    """Red lines and required evidence, as far as the gate that judged knew of them."""
    if not case.gate.has(GateVersion.V1_2):
        return ()
    return (*what.check_red_lines(case), *what.check_evidence(case))


def _invariants(case: Case, *, between: bool) -> tuple[Finding, ...]:
    """Invariants that are violated now. One that a person has let pass at the gate stays so."""
    pausing = case.kind.asserted(InvariantPlace.BETWEEN_STEPS) if between else ()
    elsewhere = {one.invariant_id for one in pausing}
    passed = {lift.subject for lift in case.facts.lifts if lift.check == CheckName.INVARIANTS}
    return tuple(
        item
        for item in what.violated(case, InvariantPlace.CLAIM)
        if item.subject not in elsewhere
        and (item.outcome is FindingOutcome.FAIL or item.subject not in passed)
    )


def _is_lifted(finding: Finding, lifted: Sequence[Finding]) -> bool:
    return finding.outcome is FindingOutcome.REFER and any(
        (seen.check, seen.code, seen.subject) == (finding.check, finding.code, finding.subject)
        and findings.at_most(finding.proposed_value, seen.proposed_value)
        and findings.at_most(seen.limit, finding.limit)
        for seen in lifted
    )
