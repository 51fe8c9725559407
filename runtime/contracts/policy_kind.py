"""A policy kind: everything the runtime knows about one sort of action, as data.

A kind is immutable under its version. Its identity is the digest of its canonical bytes; a verdict
stores that digest, so that it can be judged again years later. Expressions are CEL source text here;
`runtime.kernel.rules` compiles and lints them. Fields are only ever appended, always with a default.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from runtime.contracts.document import Contract, Id, RuleDocument, Words, is_empty, is_false, is_none, is_one
from runtime.contracts.kind_steps import Step
from runtime.contracts.kind_types import (
    MAX_ASSERTIONS,
    MAX_GIVEN,
    MAX_JURISDICTIONS,
    MAX_OUTPUTS,
    MAX_RULESETS,
    JsonSchema,
    Jurisdiction,
    KindName,
    OnFail,
    ParamName,
    RulesetRef,
    SemVer,
    Severity,
    Slug,
    Source,
    Template,
    Title,
)
from runtime.contracts.redaction import MOST_REDACTIONS, Redaction
from runtime.contracts.retention import MOST_DAYS
from runtime.contracts.scoring import Scoring
from runtime.contracts.source_labels import Labels
from runtime.contracts.states import StepType

_OTHER_SORTS = 3


class RiskTier(StrEnum):
    """How much confidence a kind asks for; T3 always needs a person unless the manifest waives it."""

    T0 = "T0"
    T1 = "T1"
    T2 = "T2"
    T3 = "T3"


CONFIDENCE_THRESHOLDS: dict[RiskTier, float] = {
    RiskTier.T0: 0.6,
    RiskTier.T1: 0.7,
    RiskTier.T2: 0.8,
    RiskTier.T3: 0.9,
}


class OnUnknown(StrEnum):
    """What happens to an attempt whose result is unknown."""

    PROBE = "probe"
    RESEND = "resend"
    PERSON = "person"


class RouteAction(StrEnum):
    """What a route does with a recorded outcome."""

    RETRY_LATER = "RETRY_LATER"
    FALL_BACK = "FALL_BACK"
    ESCALATE = "ESCALATE"
    RE_ENGAGE = "RE_ENGAGE"
    CLOSE = "CLOSE"


class Dependency(Contract):
    """A fact whose material change makes context and evidence stale.

    `fact` is a two-segment path that may hold `${CEL}` in its second segment. Without `unless` any
    change is material; with it, a change is immaterial exactly when the expression is true.
    `unit` is what its value counts in, for people.
    """

    fact: Template
    unless: Source | None = None
    unit: Words | None = Field(default=None, exclude_if=is_none)


def _as_dependency(value: Any) -> Any:
    return {"fact": value} if isinstance(value, str) else value


class Limit(Contract):
    """An authority bound: `value` must not be above `limit`.

    `unit` is what both count in, for people: needed only where `value` is more than one parameter.
    """

    id: Id
    value: Source
    limit: Source
    on_exceed: OnFail = OnFail.ESCALATE
    message: Words | None = None
    unit: Words | None = Field(default=None, exclude_if=is_none)


class Rule(Contract):
    """A condition that must be exactly true. Its id is the reason code of the finding."""

    id: Id
    require: Source
    on_fail: OnFail = OnFail.REJECT
    message: Words | None = None
    version: SemVer | None = None
    priority: Annotated[int, Field(ge=0, le=1000)] = 0
    severity: Severity | None = None
    mandatory: bool = True


class RedLine(Contract):
    """What must never happen, whoever asks for it: `forbid` must be exactly false."""

    id: Id
    forbid: Source
    message: Words | None = None


class InvariantPlace(StrEnum):
    """Where an invariant is asked.

    When a proposal is judged, right before each call, before each step that follows on one that is done, and
    once all steps are done.
    """

    GATE = "GATE"
    CLAIM = "CLAIM"
    BETWEEN_STEPS = "BETWEEN_STEPS"
    AFTER = "AFTER"


def _as_source(value: Any) -> Any:
    """What an invariant is given is CEL; a number, or true and false, may be written as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


class Invariant(Contract):
    """What must hold whatever is done: `require` must be exactly true where it is asked.

    It reads what it is given as `with.<name>`. At the gate, HIGH and CRITICAL refuse; below, a person
    decides.
    """

    invariant_id: Id
    require: Source
    severity: Severity = Severity.HIGH
    at: Annotated[tuple[InvariantPlace, ...], Field(min_length=1, max_length=len(InvariantPlace))] = (
        InvariantPlace.GATE,
        InvariantPlace.CLAIM,
    )
    message: Words | None = Field(default=None, exclude_if=is_none)


class SafetyAssertion(Contract):
    """An invariant that a kind asserts, with what it is given (`with`, CEL by name).

    `pinned` is the invariant as it stood in the pack when the kind was loaded, with `with` put in its place:
    it is part of the kind, and what is asked.
    """

    # `with` is a word of Python, so the field has another name, under which it is stored.
    model_config = ConfigDict(populate_by_name=True)

    invariant_id: Id
    given: Annotated[
        dict[ParamName, Annotated[Source, BeforeValidator(_as_source)]], Field(max_length=MAX_GIVEN)
    ] = Field(default_factory=dict, validation_alias="with", exclude_if=is_empty)
    pinned: Invariant | None = Field(default=None, exclude_if=is_none)


class EvidenceNeed(Contract):
    """Evidence without which nothing is accepted, not older than `max_age_s`: one of the four.

    `fact` is a path as in `depends_on`. `step` is the type of a step, and `label` the source label of one,
    that the agent has reported in the flow. `receipt` is a policy kind that was carried out in the flow or
    its family.
    """

    fact: Template | None = Field(default=None, exclude_if=is_none)
    step: StepType | None = Field(default=None, exclude_if=is_none)
    label: Words | None = Field(default=None, exclude_if=is_none)
    receipt: KindName | None = Field(default=None, exclude_if=is_none)
    max_age_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if [self.fact, self.step, self.label, self.receipt].count(None) != _OTHER_SORTS:
            raise ValueError("give exactly one of fact, step, label and receipt")
        return self

    @property
    def sort(self) -> str:
        """Which of the four it is."""
        return next(name for name in ("fact", "step", "label", "receipt") if getattr(self, name) is not None)

    @property
    def name(self) -> str:
        """What is needed: of a fact the template of its path."""
        return str(getattr(self, self.sort))


class ApprovalMode(StrEnum):
    """At least so many people, or so careful ones, the lightest first."""

    NONE = "none"
    PERSON = "person"
    DESTRUCTIVE = "destructive"
    TWO_PERSONS = "two_persons"


_MODES = {mode.value: mode for mode in ApprovalMode}


class Constraint(Contract):
    """The agent's own bound against live facts; asked at the gate and again inside the claim."""

    id: Id
    require: Source
    message: Words | None = None


class Prediction(Contract):
    """The value a fact is expected to have after the effect.

    A person decides on this, so a change of the fact is material as that of a dependency is: any change,
    but where `unless` is true. Without one, a dependency on the same fact has the word. `unit` is as there.
    """

    fact: Template
    value: Source
    unless: Source | None = Field(default=None, exclude_if=is_none)
    unit: Words | None = Field(default=None, exclude_if=is_none)


class Figure(Contract):
    """A parameter that the runtime works out for itself as well: what the agent states of it is a claim.

    Expressions read `figures.<param>`, the greater of what is stated and `value`; people are shown both.
    """

    param: ParamName
    value: Source


class Claim(Contract):
    """How much of a resource's capacity the action takes."""

    resource: Words
    amount: Source


class Route(Contract):
    """What to do after the result of a step for which `when` is true.

    `step` is what FALL_BACK runs instead; `advice` is what RE_ENGAGE tells the agent. With `clarify` it also
    asks the agent what shall happen now, with all that it needs to propose again.
    """

    when: Source
    action: RouteAction
    step: Id | None = None
    advice: Words | None = None
    clarify: bool = Field(default=False, exclude_if=is_false)


Dependencies = tuple[Annotated[Dependency, BeforeValidator(_as_dependency)], ...]


class KindDocument(RuleDocument):
    """A named, versioned, immutable sort of action."""

    kind: KindName
    version: SemVer
    title: Title
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    risk_tier: RiskTier
    params_schema: JsonSchema
    constraints_schema: JsonSchema = Field(default_factory=lambda: JsonSchema(type="object"))
    outputs_schema: JsonSchema | None = None
    depends_on: Dependencies = ()
    impact: Source = "'HIGH_IMPACT'"
    limits: tuple[Limit, ...] = ()
    rules: tuple[Rule, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    predicts: tuple[Prediction, ...] = ()
    claims: tuple[Claim, ...] = ()
    effect: Template
    steps: tuple[Step, ...] = ()
    sla_s: Annotated[int, Field(ge=1, le=2_592_000)] | None = None
    reversible: bool = False
    on_unknown: OnUnknown = OnUnknown.PERSON
    confidence_waiver: bool = False
    subjects: tuple[Template, ...] = ()
    category: Slug | None = None
    allowed_outcomes: tuple[Id, ...] = ()
    # A plain word is a note for people; nothing asks for it.
    required_evidence: tuple[EvidenceNeed | Slug, ...] = ()
    approval_mode: Slug | None = None
    gate_id: Slug | None = None
    routes: tuple[Route, ...] = ()
    # A plain sentence is a note for people.
    red_lines: tuple[RedLine | Words, ...] = ()
    figures: tuple[Figure, ...] = Field(default=(), exclude_if=is_empty)
    # For how long a person may take a decision back before anything runs; without it, by the impact.
    undo_s: Annotated[int, Field(ge=0, le=300)] | None = Field(default=None, exclude_if=is_none)
    # Who decides faster is asked what they checked; without it, half of what people took lately.
    reading_s: Annotated[int, Field(ge=0, le=3600)] | None = Field(default=None, exclude_if=is_none)
    # How many different people a decision needs whatever its impact; CRITICAL always needs two.
    approvals: Annotated[int, Field(ge=1, le=2)] = Field(default=1, exclude_if=is_one)
    # How long a CRITICAL decision waits before anything runs.
    cooling_s: Annotated[int, Field(ge=0, le=120)] | None = Field(default=None, exclude_if=is_none)
    # What its decision records are scored by, after the end: it changes no verdict.
    scorecard: Scoring | None = Field(default=None, exclude_if=is_none)
    # For how many days after the end of a flow its words are kept; without it, the setting says so.
    retention_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = Field(default=None, exclude_if=is_none)
    # What the receipts of an execution that succeeded come to: one of `allowed_outcomes`.
    outcome: Source | None = Field(default=None, exclude_if=is_none)
    # What is taken from those receipts, by name; all of it together must fit `outputs_schema`.
    outputs: Annotated[dict[ParamName, Source], Field(max_length=MAX_OUTPUTS)] = Field(
        default_factory=dict, exclude_if=is_empty
    )

    requires_context: bool = Field(default=False, exclude_if=is_false)
    context_current: Literal["allowed"] | None = Field(default=None, exclude_if=is_none)
    # What is replaced in receipts, explanations and answers before anything of them is stored.
    redact: Annotated[tuple[Redaction, ...], Field(max_length=MOST_REDACTIONS)] = Field(
        default=(), exclude_if=is_empty
    )

    # Invariants of the pack, pinned when the kind is loaded.
    safety_assertions: Annotated[tuple[SafetyAssertion, ...], Field(max_length=MAX_ASSERTIONS)] = Field(
        default=(), exclude_if=is_empty
    )

    # Which end of a proposal speaks for the confidence that was stated; it changes no verdict.
    good_when: Source | None = Field(default=None, exclude_if=is_none)
    # The versions of rulesets whose guardrails and mandatory rules the gate asks.
    rulesets: Annotated[tuple[RulesetRef, ...], Field(max_length=MAX_RULESETS)] = Field(
        default=(), exclude_if=is_empty
    )
    # Whether a proposal must be what a decision package of its flow selected.
    follows_decision: bool = Field(default=False, exclude_if=is_false)
    # Whether the manifest must say by which model and which evaluators the agent works.
    strict: bool = Field(default=False, exclude_if=is_false)
    # What its results are labelled with: who gets one has these labels from then on.
    labels: Labels = Field(default=(), exclude_if=is_empty)
    # Whose law its actions are under, for people and in what leaves the house: it changes no verdict.
    jurisdiction: Annotated[tuple[Jurisdiction, ...], Field(max_length=MAX_JURISDICTIONS)] = Field(
        default=(), exclude_if=is_empty
    )

    @model_validator(mode="after")
    def _asks_one_way(self) -> Self:
        if self.requires_context and self.context_current is not None:
            raise ValueError("requires_context contradicts context_current: allowed")
        return self

    @property
    def has_effect(self) -> bool:
        """Whether something runs or is reserved once it is accepted; the rest is only judged and recorded."""
        return bool(self.steps or self.claims)

    @property
    def asks_receipts(self) -> bool:
        """Whether something is asked of the receipts at the end: an outcome, or outputs."""
        return self.outcome is not None or bool(self.outputs)

    @property
    def checks_results(self) -> bool:
        """Whether something is asked of the receipts of single steps, or of the facts after the last."""
        has_schema = any(step.receipt_schema is not None for step in self.steps)
        return has_schema or bool(self.asserted(InvariantPlace.AFTER))

    @property
    def forbidden(self) -> tuple[RedLine, ...]:
        """The red lines that are asked."""
        return tuple(line for line in self.red_lines if isinstance(line, RedLine))

    @property
    def needs(self) -> tuple[EvidenceNeed, ...]:
        """The evidence that is asked for."""
        return tuple(need for need in self.required_evidence if isinstance(need, EvidenceNeed))

    def asserted(self, place: InvariantPlace) -> tuple[Invariant, ...]:
        """The invariants that are asked there."""
        pinned = (assertion.pinned for assertion in self.safety_assertions)
        return tuple(one for one in pinned if one is not None and place in one.at)

    @property
    def least_approval(self) -> ApprovalMode:
        """What `approval_mode` asks for; any other word there is a note for people."""
        return _MODES.get(self.approval_mode or "", ApprovalMode.NONE)

    @property
    def people_needed(self) -> int:
        """How many different people a decision needs at least."""
        return 2 if self.least_approval is ApprovalMode.TWO_PERSONS else self.approvals

    @property
    def fallbacks(self) -> frozenset[str]:
        """The ids of the steps that only a FALL_BACK route runs: no part of the normal sequence."""
        named = (route.step for route in self.routes if route.action is RouteAction.FALL_BACK)
        return frozenset(step for step in named if step is not None)

    @property
    def resends_to(self) -> frozenset[str]:
        """The targets to which a call in doubt is sent again under its key, without asking anybody."""
        if self.on_unknown is not OnUnknown.RESEND:
            return frozenset()
        called = (step.target for step in self.steps if step.executor.calls_target)
        return frozenset(target for target in called if target is not None)

    @property
    def tools(self) -> tuple[tuple[str, str], ...]:
        """The tools of MCP servers that its steps call and undo by, each once, as (target, tool)."""
        found = (
            (step.target or "", call.name)
            for step in self.steps
            if step.tool is not None
            for call in (step.tool, step.tool.undo)
            if call is not None
        )
        return tuple(dict.fromkeys(found))

    @property
    def confidence_threshold(self) -> float:
        """The confidence below which the risk tier asks for a person."""
        return CONFIDENCE_THRESHOLDS[self.risk_tier]
