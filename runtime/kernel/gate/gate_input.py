"""One case before the gate: proposal, facts, rules and the moment, with the names that expressions see."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import Field

from runtime.contracts import timestamps
from runtime.contracts.calibration import CalibrationDocument, ConfidenceUse, UsedConfidence
from runtime.contracts.document import Contract, RuleDocument, is_empty, is_none
from runtime.contracts.facts import Facts
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import ApprovalMode, KindDocument
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.states import Impact
from runtime.contracts.verdict import ResourceClaim, StepRequest
from runtime.contracts.workflow import WorkflowDocument
from runtime.kernel import budget_rules, calibration, reservation_rules, schemas, step_history
from runtime.kernel.gate import calls
from runtime.kernel.reservation_rules import Unreadable
from runtime.kernel.rules import declared, evaluate, kind_checkers, language
from runtime.kernel.rules.figures import Figured, work_out


class GateVersion(StrEnum):
    """Which gate judged. What was judged once is judged again by the same, so a new one keeps the old."""

    V1_0 = "1.0.0"
    # Bounds that the kind does not declare are refused; waiting for the rate limit costs no attempt; over
    # params and constraints that do not fit, no expression of the kind is evaluated; values too large
    # for their schema are refused unread; a kind may give the impact CRITICAL.
    V1_1 = "1.1.0"
    # Red lines, required evidence and the approval mode of a kind are enforced.
    V1_2 = "1.2.0"

    def has(self, feature: "GateVersion") -> bool:
        """Whether this gate does what `feature` was the first to do."""
        return _RANKS[self] >= _RANKS[feature]


_RANKS = {version: rank for rank, version in enumerate(GateVersion)}
FIRST, NEWEST = GateVersion.V1_0, GateVersion.V1_2


def is_first(version: Any) -> bool:
    """For `Field(exclude_if=...)`: what the first gate judged is stored without its version."""
    return bool(version == FIRST)


class PolicyBundle(Contract):
    """What is in force: the agent's active manifest and the active version of the kind, or nothing.

    `workflow` is the one that the flow began with, where its agent has one.
    """

    manifest: ManifestDocument | None
    kind: KindDocument | None
    workflow: WorkflowDocument | None = Field(default=None, exclude_if=is_none)
    # The rulesets that the kind names, as far as they were ever activated.
    rulesets: tuple[RulesetDocument, ...] = Field(default=(), exclude_if=is_empty)
    # The active maps of agent and kind, by impact, where the manifest asks for calibrated confidence.
    calibrations: tuple[CalibrationDocument, ...] = Field(default=(), exclude_if=is_empty)

    def to_bytes(self) -> bytes:
        """The canonical JSON, put together from that of its documents, which remember theirs."""
        members = []
        for name, field in sorted(type(self).model_fields.items()):
            value = getattr(self, name)
            if field.exclude_if is None or not field.exclude_if(value):
                members.append(b'"%b":%b' % (name.encode(), _written(value)))
        return b"{%b}" % b",".join(members)


def _written(value: RuleDocument | tuple[RuleDocument, ...] | None) -> bytes:
    if isinstance(value, tuple):
        return b"[%b]" % b",".join(document.to_bytes() for document in value)
    return b"null" if value is None else value.to_bytes()


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a check may look at. `now_ms` is the judged moment in Unix milliseconds."""

    proposal: ProposalDocument
    facts: Facts
    rules: PolicyBundle
    now_ms: int
    gate: GateVersion = NEWEST

    @cached_property
    def kind(self) -> KindDocument:
        """The policy kind; checks after `schema` may rely on it, since without one the walk has ended."""
        if self.rules.kind is None:
            raise LookupError("the walk goes on without a policy kind")
        return self.rules.kind

    @cached_property
    def manifest(self) -> ManifestDocument:
        """The active manifest; checks after `authority` may rely on it."""
        if self.rules.manifest is None:
            raise LookupError("the walk goes on without a manifest")
        return self.rules.manifest

    @cached_property
    def misfits(self) -> tuple[tuple[str, schemas.SchemaViolation], ...]:
        """What does not fit the schemas of the kind, each with the part of the proposal that it is in."""
        of_params, of_bounds = kind_checkers.of_params(self.kind), kind_checkers.of_constraints(self.kind)
        params, bounds = self.proposal.params, self.proposal.execution_constraints
        if self.gate.has(GateVersion.V1_1):
            in_params = of_params.violations(params)
            undeclared = declared.undeclared(self.kind.constraints_schema, bounds)
            unfit = {*of_bounds.violations(bounds), *undeclared}
            in_bounds = tuple(sorted(unfit)[: schemas.MAX_VIOLATIONS])
        else:
            in_params = of_params.violations_of_any_size(params)
            in_bounds = of_bounds.violations_of_any_size(bounds)
        parts = (("/params", in_params), ("/execution_constraints", in_bounds))
        return tuple((part, violation) for part, found in parts for violation in found)

    @cached_property
    def _given(self) -> tuple[language.Names, tuple[Figured, ...]]:
        """The names with their values, and the figures that were worked out over all the others."""
        flow, agent, steps = self.facts.flow, self.facts.agent, self.facts.steps
        values: dict[str, Any] = {
            "params": self.proposal.params,
            "constraints": self.proposal.execution_constraints,
            "context": {"facts": evaluate.nest(self.facts.world)},
            "manifest": self.manifest.plain,
            "flow": {
                "dfid": self.proposal.dfid,
                "state": flow.state,
                "attempts_used": flow.attempts_used,
                "age_s": max(0, self.now_ms - flow.opened_at_ms) // 1000,
                "trigger": flow.trigger,
            },
            "agent": agent.model_dump(mode="json"),
            "history": {
                **(self.facts.history or {}),
                **({} if steps is None else step_history.named(steps, now_ms=self.now_ms)),
            },
            "budget": {
                "escalation_tokens": self.facts.escalation_tokens,
                **budget_rules.left(self.facts.compute),
            },
            "time": timestamps.named(self.now_ms),
            "labels": list(self.facts.labels or ()),
        }
        known = language.Names(values)
        found = work_out(self.rules.kind, known)
        known["figures"] = {item.param: item.greater for item in found}
        return known, found

    @property
    def names(self) -> language.Names:
        """The names of `scope.JUDGED`, with their values."""
        return self._given[0]

    @cached_property
    def is_evaluated(self) -> bool:
        """Whether the kind's expressions have all that they read, and may be evaluated over it."""
        if self.rules.kind is None or self.rules.manifest is None or self.facts.unsafe is not None:
            return False
        return not self.gate.has(GateVersion.V1_1) or not self.misfits

    @cached_property
    def impact(self) -> Impact:
        """The impact category; HIGH_IMPACT where it cannot be worked out (fail closed), or cannot be undone.

        The first gate knew two categories: to it any other word was HIGH_IMPACT.
        """
        found = evaluate.impact(self.kind, self.names) if self.is_evaluated else Impact.HIGH_IMPACT
        if found is Impact.CRITICAL and not self.gate.has(GateVersion.V1_1):
            return Impact.HIGH_IMPACT
        floor = Impact.HIGH_IMPACT if self.least_approval is ApprovalMode.DESTRUCTIVE else Impact.LOW_IMPACT
        return max(found, floor, key=lambda impact: impact.rank)

    @cached_property
    def calibrated(self) -> UsedConfidence | None:
        """What an active calibration map makes of the stated confidence; None where none is asked.

        The map can only lower it (the smaller counts), so that nothing an agent does widens what it may do.
        """
        stated, rules = self.proposal.confidence, self.rules
        if stated is None or self.proposal.by_person or rules.manifest is None or rules.kind is None:
            return None
        if rules.manifest.confidence is not ConfidenceUse.CALIBRATED:
            return None
        profile, impact = rules.manifest.model_profile, self.impact
        for one in rules.calibrations:
            if (one.impact, one.kind_digest, one.model_profile) != (impact, rules.kind.digest, profile):
                continue
            given = calibration.millionths(stated)
            mapped = calibration.mapped(one.map, given)
            return UsedConfidence(
                stated=given,
                mapped=mapped,
                used=min(given, mapped),
                calibration=one.version,
                calibration_digest=one.digest,
                pairs=one.pairs,
            )
        return None

    @property
    def least_approval(self) -> ApprovalMode:
        """The approval that the kind asks for; no earlier gate asked."""
        if self.rules.kind is None or not self.gate.has(GateVersion.V1_2):
            return ApprovalMode.NONE
        return self.rules.kind.least_approval

    @cached_property
    def figures(self) -> tuple[Figured, ...]:
        """The parameters that the runtime works out for itself."""
        if not self.is_evaluated:
            return ()
        _, found = self._given
        return tuple(item for item in found if language.is_exact([item.stated, item.live]))

    @cached_property
    def wanted(self) -> tuple[ResourceClaim | Unreadable, ...]:
        """What the kind claims of resources: asked first to see whether it fits, then to take it."""
        return reservation_rules.wanted(self.kind, self.names)

    @cached_property
    def calls(self) -> tuple[StepRequest, ...]:
        """Every call of the intent, rendered once: CEL map order differs from process to process.

        Raises:
            ExpressionError: when a call cannot be made.
        """
        return calls.render(self.kind, self.proposal, self.names)
