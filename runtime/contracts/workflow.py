"""A workflow: the instructions of an agent, the edges between them, and policies before and after them."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from runtime.contracts.document import Contract, Id, RuleDocument, is_none
from runtime.contracts.kind_types import OnFail, SemVer, Slug
from runtime.contracts.states import Impact

InstructionName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
# What a router reads of the step that was reported: output.confidence, input.symbol.
StepPath = Annotated[
    str, StringConstraints(pattern=r"^(output|input)(\.[A-Za-z_][A-Za-z0-9_]{0,63}){1,8}$", max_length=300)
]
# Where a router leads that calls a person; no instruction has this name.
INTERRUPT: Final = "INTERRUPT"
Number = Annotated[float, Field(ge=-(2**53), le=2**53, allow_inf_nan=False)]


class Core(StrEnum):
    """What sort of work an instruction is (ArbiterOS)."""

    COGNITIVE = "COGNITIVE"
    MEMORY = "MEMORY"
    EXECUTION = "EXECUTION"
    NORMATIVE = "NORMATIVE"
    METACOGNITIVE = "METACOGNITIVE"


class OnMissing(StrEnum):
    """What a router does whose key was not reported: route as if it matched, or continue."""

    TO = "to"
    GO_ON = "go_on"


class BudgetOf(StrEnum):
    """What a budget checker looks at: the reliability, or what is left to the flow or its agent.

    The whole is what a flow begins with: of escalations, what the manifest grants in an hour.
    """

    RELIABILITY = "reliability"
    TOKENS = "tokens"
    COST = "cost"
    TOOL_CALLS = "tool_calls"
    WALL_CLOCK = "wall_clock"
    ESCALATIONS = "escalations"


class Instruction(Contract):
    """One instruction; `cost` is what a step of it takes from the reliability of the flow.

    The schemas declare what expressions of policy kinds may read of its reports.
    """

    core: Core
    cost: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    max_visits: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, exclude_if=is_none)
    input_schema: dict[str, JsonValue] | None = Field(default=None, exclude_if=is_none)
    output_schema: dict[str, JsonValue] | None = Field(default=None, exclude_if=is_none)


class Reliability(Contract):
    """The reliability that a flow begins with; every step takes the cost of its instruction."""

    start: Annotated[int, Field(ge=0, le=1_000_000)] = 100


class _Checker(Contract):
    id: Id
    on_fail: OnFail = OnFail.REJECT


class SequenceChecker(_Checker):
    """A step of core `to` is refused while a step of core `from` has no step of core `between` after it."""

    # `from` is no name in Python: documents are stored with `before` and read with either.
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    checker: Literal["sequence"]
    before: Core = Field(alias="from")
    to: Core
    between: Core


class StateChecker(_Checker):
    """`require` is CEL over `input` and `history.last`, and must be exactly true."""

    checker: Literal["state"]
    on: InstructionName
    require: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class RateChecker(_Checker):
    """At most `times` permits in any half-open window of `per_s` seconds."""

    checker: Literal["rate"]
    on: InstructionName
    times: Annotated[int, Field(ge=1, le=100)]
    per_s: Annotated[int, Field(ge=1, le=86_400)]


class BudgetChecker(_Checker):
    """More than the fraction `above` of the whole must be left: 0.5 is more than half."""

    checker: Literal["budget"]
    on: InstructionName
    of: BudgetOf
    above: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class PrecedesChecker(_Checker):
    """A step of `by` must have been reported at most `within_s` seconds ago; ever, without it."""

    checker: Literal["precedes"]
    on: InstructionName
    by: InstructionName
    within_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)


class _Router(Contract):
    id: Id
    on: InstructionName


class ThresholdRouter(_Router):
    """Routes where the number at `key` is below `below`, or above `above`."""

    router: Literal["threshold"]
    key: StepPath
    below: Number | None = Field(default=None, exclude_if=is_none)
    above: Number | None = Field(default=None, exclude_if=is_none)
    to: InstructionName
    on_missing: OnMissing = OnMissing.TO

    @model_validator(mode="after")
    def _has_one_bound(self) -> "ThresholdRouter":
        if (self.below is None) == (self.above is None):
            raise ValueError("a threshold has either below or above")
        return self


class ValueRouter(_Router):
    """Routes where the value at `key` is `equals`, compared as canonical JSON."""

    router: Literal["value"]
    key: StepPath
    equals: JsonValue
    to: InstructionName
    on_missing: OnMissing = OnMissing.TO


class ValidateRouter(_Router):
    """A check of what was reported, by an instruction or by the runtime itself.

    With `by` it routes there, again and again until that reports `output.result` PASS. With `require`, CEL
    over `input` and `output` of the step, nothing follows where that is exactly true. What fails routes to
    `on_fail`, and calls a person without one.
    """

    router: Literal["validate"]
    by: InstructionName | None = Field(default=None, exclude_if=is_none)
    require: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = Field(
        default=None, exclude_if=is_none
    )
    on_fail: InstructionName | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _has_one_check(self) -> "ValidateRouter":
        if (self.by is None) == (self.require is None):
            raise ValueError("a validation has either by or require")
        return self

    @property
    def failed(self) -> str:
        """Where what fails leads."""
        return self.on_fail or INTERRUPT


Checker = Annotated[
    SequenceChecker | StateChecker | RateChecker | BudgetChecker | PrecedesChecker,
    Field(discriminator="checker"),
]
Router = Annotated[ThresholdRouter | ValueRouter | ValidateRouter, Field(discriminator="router")]


def _is_high(impact: Impact) -> bool:
    return impact is Impact.HIGH_IMPACT


class WorkflowDocument(RuleDocument):
    """A workflow at one version; the linter says whether it can be walked at all."""

    workflow: Slug
    version: SemVer
    start: InstructionName
    ends: Annotated[tuple[InstructionName, ...], Field(min_length=1, max_length=50)]
    instructions: Annotated[dict[InstructionName, Instruction], Field(min_length=1, max_length=100)]
    edges: Annotated[tuple[tuple[InstructionName, InstructionName], ...], Field(max_length=1000)] = ()
    reliability: Reliability = Reliability()
    # Of an interrupt: how long a person has to decide (as the installation has it, without) and its impact.
    sla_s: Annotated[int, Field(ge=1, le=604_800)] | None = Field(default=None, exclude_if=is_none)
    impact: Impact = Field(default=Impact.HIGH_IMPACT, exclude_if=_is_high)
    checkers: Annotated[tuple[Checker, ...], Field(max_length=100)] = ()
    routers: Annotated[tuple[Router, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _has_unique_ids(self) -> "WorkflowDocument":
        ids = [policy.id for policy in (*self.checkers, *self.routers)]
        if len(ids) != len(set(ids)):
            raise ValueError("two policies have the same id")
        return self


class ReportedStep(Contract):
    """The step that was reported last: a claim of the agent."""

    instruction: InstructionName
    core: Core
    input: dict[str, Any] = Field(default_factory=dict)
    output: dict[str, Any] = Field(default_factory=dict)


class ShownStep(Contract):
    """A step as expressions of policy kinds read it: the declared fields of what its agent claims."""

    instruction: InstructionName
    core: Core
    at_ms: int
    input: dict[str, Any]
    output: dict[str, Any]


class StepHistory(Contract):
    """The newest steps of a flow, oldest first; `truncated` where there were more."""

    steps: tuple[ShownStep, ...]
    truncated: bool


class Next(Contract):
    """The instruction that a router demands, and which router and why; `INTERRUPT` calls a person."""

    instruction: InstructionName
    policy: str
    reason: str


class AllowedStep(Contract):
    """A step that a person allowed once, with this input alone, though these checkers refuse it."""

    instruction: InstructionName
    input_digest: str
    policies: tuple[str, ...]


class WorkflowFold(Contract):
    """All that checkers may know of the steps of a flow, however many there were. Times in Unix ms.

    `passed_since` holds, by core, the cores that were reported since the last step of it and did not report
    FAIL. `permits` are the moments at which each rate checker allowed a step, the newest last. `allowed` ends
    with the next step, whichever it is.
    """

    position: InstructionName | None = None
    visits: dict[str, int] = Field(default_factory=dict)
    last_at_ms: dict[str, int] = Field(default_factory=dict)
    passed_since: dict[Core, tuple[Core, ...]] = Field(default_factory=dict)
    reliability: int
    pending: Next | None = None
    last: ReportedStep | None = None
    allowed: AllowedStep | None = Field(default=None, exclude_if=is_none)
    permits: dict[str, tuple[int, ...]] = Field(default_factory=dict)
