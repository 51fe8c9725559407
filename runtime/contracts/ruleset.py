"""A ruleset: decision tables, production rules and Cedar policies over named features, as data.

A ruleset is immutable under its version, as a policy kind is. Its cells and expressions are source text here;
`runtime.kernel.rulesets` compiles and lints them. Fields are only ever appended, always with a default.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from runtime.contracts.document import Contract, Id, RuleDocument, Words, is_empty, is_false, is_none
from runtime.contracts.kind_types import KindName, ParamName, RulesetName, SemVer, Severity, Source

MAX_FEATURES = 50
MAX_TABLES = 20
MAX_RULES = 500
MAX_POLICIES = 50
MAX_INPUTS = 20
MAX_TEXT_CHARS = 1000

ActionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
Certainty = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Priority = Annotated[int, Field(ge=0, le=1000)]
# With a capital letter, so that none is a word of Cedar's own.
EntityType = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9_]{0,63}$")]
FeatureNames = Annotated[tuple[ParamName, ...], Field(max_length=MAX_FEATURES)]


class FeatureType(StrEnum):
    """What the value of a feature is; a `number` may be whole too."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"


class HitPolicy(StrEnum):
    """How a table answers where several of its rules match (DMN 1.3, 8.2.10)."""

    UNIQUE = "UNIQUE"
    FIRST = "FIRST"
    PRIORITY = "PRIORITY"
    ANY = "ANY"
    COLLECT = "COLLECT"
    RULE_ORDER = "RULE ORDER"


class Aggregate(StrEnum):
    """What COLLECT makes of the results: a list of all, or one number."""

    LIST = "list"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    COUNT = "count"


class Strategy(StrEnum):
    """By what a conflict between rules is resolved: the first of the declared ones that tells them apart."""

    MANDATORY = "mandatory"
    PRIORITY = "priority"
    SPECIFICITY = "specificity"


class Feature(Contract):
    """One named input. Older than `max_age_s` it counts as missing.

    `value` is CEL over the names of a policy kind's rules: how the gate reads it, where a kind
    names the ruleset.
    """

    type: FeatureType
    max_age_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)
    value: Source | None = Field(default=None, exclude_if=is_none)


class ProposedAction(Contract):
    """What a rule says to do."""

    action: ActionName
    params: dict[ParamName, JsonValue] = Field(default_factory=dict)


def _as_text(value: Any) -> Any:
    """A cell that YAML read as a number or a truth is the literal that it looks like."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Cell = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS), BeforeValidator(_as_text)]


class TableRule(Contract):
    """A row of a table: one cell for each input, and what follows where all of them hold."""

    id: Id
    when: Annotated[tuple[Cell, ...], Field(max_length=MAX_INPUTS)]
    then: ProposedAction
    certainty: Certainty = 1.0
    priority: Priority = 0
    mandatory: bool = False
    version: SemVer | None = Field(default=None, exclude_if=is_none)
    justification: Words | None = Field(default=None, exclude_if=is_none)


class DecisionTable(Contract):
    """A decision table. `output_values` are actions, the most important first, for the hit policy PRIORITY.

    With COLLECT, `collect` says what becomes of the results, and `of` which parameter holds the number.
    """

    table: Id
    decides: Id
    hit: HitPolicy = HitPolicy.UNIQUE
    inputs: Annotated[tuple[ParamName, ...], Field(min_length=1, max_length=MAX_INPUTS)]
    rules: Annotated[tuple[TableRule, ...], Field(min_length=1, max_length=MAX_RULES)]
    output_values: tuple[ActionName, ...] = Field(default=(), exclude_if=is_empty)
    collect: Aggregate | None = Field(default=None, exclude_if=is_none)
    of: ParamName | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _policy_has_what_it_needs(self) -> Self:
        if (self.hit is HitPolicy.PRIORITY) != bool(self.output_values):
            raise ValueError("output_values belongs to the hit policy PRIORITY, which needs it")
        if self.collect is not None and self.hit is not HitPolicy.COLLECT:
            raise ValueError("collect belongs to the hit policy COLLECT")
        if (self.aggregate is Aggregate.LIST) != (self.of is None):
            raise ValueError("of names the parameter of collect: sum, min, max and count, which need it")
        return self

    @property
    def aggregate(self) -> Aggregate:
        """What COLLECT makes of the results: a list, unless it says otherwise."""
        return self.collect or Aggregate.LIST


class ProductionRule(Contract):
    """A rule of its own: `when` is CEL over `features`, which must be exactly true."""

    id: Id
    decides: Id
    when: Source
    then: ProposedAction
    certainty: Certainty = 1.0
    priority: Priority = 0
    mandatory: bool = False
    version: SemVer | None = Field(default=None, exclude_if=is_none)
    justification: Words | None = Field(default=None, exclude_if=is_none)


class Guardrail(Contract):
    """What must not be: `forbid` is CEL over `features` and must be exactly false."""

    id: Id
    forbid: Source
    severity: Severity = Severity.HIGH
    message: Words | None = Field(default=None, exclude_if=is_none)


class CedarEntity(Contract):
    """A principal or resource of Cedar: its type, and the features that are its attributes."""

    type: EntityType
    attributes: FeatureNames = ()


class CedarResource(CedarEntity):
    """What the agent wants to act on; the feature `id` says which one it is."""

    id: ParamName


class CedarRequest(Contract):
    """What Cedar is asked of a case. The principal is the agent that asks, the action the policy kind.

    `context` are features. `cedarpy` is the exact version of the library that answers, filled in where the
    author leaves it out: another version may answer otherwise. With `must_permit` it is a guardrail that no
    policy permits the request.
    """

    cedarpy: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z.+]{1,64}$")] | None = Field(
        default=None, exclude_if=is_none
    )
    principal: CedarEntity = CedarEntity(type="Agent")
    resource: CedarResource
    context: FeatureNames = ()
    must_permit: bool = Field(default=False, exclude_if=is_false)

    @property
    def features(self) -> tuple[str, ...]:
        """Every feature that the request is made of, each once."""
        names = (*self.principal.attributes, self.resource.id, *self.resource.attributes, *self.context)
        return tuple(dict.fromkeys(names))


class CedarPolicy(Contract):
    """One policy: a `permit` is a match of certainty 1, a `forbid` a guardrail with `severity` and words."""

    id: Id
    decides: Id
    cedar: Source
    severity: Severity = Severity.HIGH
    message: Words | None = Field(default=None, exclude_if=is_none)
    justification: Words | None = Field(default=None, exclude_if=is_none)


class PolicyAnswer(StrEnum):
    """What one policy said of a request."""

    PERMITS = "PERMITS"
    FORBIDS = "FORBIDS"
    SILENT = "SILENT"
    FAILED = "FAILED"


class CedarAnswers(Contract):
    """What the policies of a ruleset said, by their ids; a policy without an answer was not asked."""

    agent_id: str
    policy_kind: KindName
    answers: dict[str, PolicyAnswer]


class RulesetDocument(RuleDocument):
    """A named, versioned, immutable set of rules.

    `aspects` are what must be decided (without them, what tables, rules and policies decide); a match of at
    least `high_confidence` is one of high confidence.
    """

    ruleset: RulesetName
    version: SemVer
    description: Annotated[str, StringConstraints(max_length=2000)] | None = Field(
        default=None, exclude_if=is_none
    )
    strategy: Annotated[tuple[Strategy, ...], Field(max_length=len(Strategy))] = ()
    high_confidence: Certainty = 0.8
    aspects: Annotated[tuple[Id, ...], Field(max_length=50)] = ()
    features: Annotated[dict[ParamName, Feature], Field(min_length=1, max_length=MAX_FEATURES)]
    tables: Annotated[tuple[DecisionTable, ...], Field(max_length=MAX_TABLES)] = ()
    rules: Annotated[tuple[ProductionRule, ...], Field(max_length=MAX_RULES)] = ()
    guardrails: Annotated[tuple[Guardrail, ...], Field(max_length=MAX_RULES)] = Field(
        default=(), exclude_if=is_empty
    )

    cedar_request: CedarRequest | None = Field(default=None, exclude_if=is_none)
    policies: Annotated[tuple[CedarPolicy, ...], Field(max_length=MAX_POLICIES)] = Field(
        default=(), exclude_if=is_empty
    )

    @model_validator(mode="after")
    def _has_rules(self) -> Self:
        if not (self.tables or self.rules or self.guardrails or self.policies):
            raise ValueError("a ruleset needs tables, rules, guardrails or policies")
        if (self.cedar_request is None) == bool(self.policies):
            raise ValueError(
                "cedar_request says what policies are asked: it belongs to them, and they need it"
            )
        return self

    @property
    def name(self) -> str:
        """`name@version`, as a kind names it."""
        return f"{self.ruleset}@{self.version}"

    @property
    def declared(self) -> tuple[str, ...]:
        """The aspects that must be decided, each once."""
        decided = (
            *(table.decides for table in self.tables),
            *(rule.decides for rule in self.rules),
            *(policy.decides for policy in self.policies),
        )
        return tuple(dict.fromkeys(self.aspects or decided))


class MatchStatus(StrEnum):
    """How sure a ruleset is of what it found."""

    HIGH = "HIGH_CONFIDENCE_MATCH"
    LOW = "LOW_CONFIDENCE_MATCH"
    NONE = "NO_MATCH"


class RuleMatch(Contract):
    """A rule that holds, and what it proposes."""

    rule_id: str
    rule_version: str
    action_proposal: ProposedAction
    certainty: Certainty
    priority: int
    mandatory: bool
    justification: str
    decides: str


class GuardrailTriggered(Contract):
    """A guardrail that does not hold, or could not be evaluated."""

    invariant_id: str
    severity: Severity
    detail: str


class RuleConflict(Contract):
    """Rules that say different things about one aspect. `resolved_by` is empty where nothing decides."""

    rule_ids: tuple[str, ...]
    rationale: str
    resolution_hint: str
    resolved_by: Strategy | Literal[""] = ""


class DecidedAspect(Contract):
    """What was decided about an aspect, by which rules; several where the hit policy gives all of them."""

    aspect: str
    actions: tuple[ProposedAction, ...]
    rule_ids: tuple[str, ...]
    certainty: Certainty


class Retransformation(Contract):
    """A feature that is missing or too old: what the context must be made anew with."""

    feature_gap: str
    suggested_scope: str


class RuleResult(Contract):
    """What a ruleset says of some features; the same for the same input, byte for byte."""

    status: MatchStatus
    matches: tuple[RuleMatch, ...]
    guardrails_triggered: tuple[GuardrailTriggered, ...]
    conflicts: tuple[RuleConflict, ...]
    decided: tuple[DecidedAspect, ...]
    residuals: tuple[str, ...]
    coverage: Certainty
    confidence_rule: Certainty
    requested_retransformations: tuple[Retransformation, ...]


class RuleOutputDocument(RuleResult):
    """The Rule Engine Output (IAE 3.3.2), with the name of the ruleset and what was decided of each aspect.

    The `salt` is stored, and sent to nobody.
    """

    rule_output_id: str
    schema_version: str
    ruleset: str
    ruleset_version: str
    trace_ref: str
    salt: str | None = Field(default=None, exclude_if=is_none)


class RuleInput(Contract):
    """The whole input of an evaluation as it is stored; the ruleset stands beside it, by its digest.

    `ages_s` are in seconds, of the features whose age was stated.
    """

    rule_output_id: str
    dfid: str
    ruleset_digest: str
    features: dict[str, JsonValue]
    ages_s: dict[str, int] = Field(default_factory=dict)
    salt: str
    # Stored as they were given: another version of the library would not have to say the same.
    cedar: CedarAnswers | None = Field(default=None, exclude_if=is_none)
