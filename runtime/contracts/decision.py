"""What a recommendation is made of, and the Decision Package that it comes to (IAE 3.3.3). It is advice.

Fields of the package have the names of the paper; `method`, `dropped`, `consensus` and `consultation_note`
are added.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints

from runtime.contracts.consultation import Consensus, Consulted
from runtime.contracts.document import Contract, is_none
from runtime.contracts.kind_types import ParamName
from runtime.contracts.policy_kind import RiskTier
from runtime.contracts.ruleset import ActionName, Certainty, RuleResult

DER_VERSION = "1.1.0"
# Of packages that were made before anybody could be consulted.
FIRST_DER_VERSION = "1.0.0"
MAX_OBJECTIVES = 20
MAX_OPTIONS = 100

OptionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]
# Sums of weight times utility over MAX_OBJECTIVES stay within the integers that JSON holds exactly.
Weight = Annotated[int, Field(ge=0, le=10**5)] | Annotated[float, Field(ge=0, le=10**5, allow_inf_nan=False)]
Utility = (
    Annotated[int, Field(ge=-(10**9), le=10**9)]
    | Annotated[float, Field(ge=-(10**9), le=10**9, allow_inf_nan=False)]
)


class Method(StrEnum):
    """How a package came to be: what the gatekeeper did."""

    ADOPT = "adopt"
    REFINE = "refine"
    CONSULT = "consult"
    ABSTAIN = "abstain"
    DENY = "deny"


class DecisionType(StrEnum):
    """The paper's word for a decision; `route` goes to a person. It has `plan` too, for several actions."""

    CHOOSE = "choose"
    ROUTE = "route"
    APPROVE = "approve"
    DENY = "deny"


class Objective(Contract):
    """What an option is weighed by; `at_least` is a bound below which an option is dropped."""

    id: OptionId
    weight: Weight
    at_least: Utility | None = None


class OptionAction(Contract):
    """What an option would do."""

    name: ActionName
    parameters: dict[ParamName, JsonValue] = Field(default_factory=dict)


class Option(Contract):
    """One way to act, with its utility for each objective and how sure the agent is of it."""

    id: OptionId
    action: OptionAction
    utilities: Annotated[dict[OptionId, Utility], Field(max_length=MAX_OBJECTIVES)] = Field(
        default_factory=dict
    )
    confidence: Certainty | None = None


class ActionFacts(Contract):
    """What the runtime knows of an action: of the active policy kind of its name, or of the strictest one."""

    risk_tier: RiskTier
    threshold: Certainty
    needs_person: bool
    preconditions: tuple[str, ...] = ()
    expected_effects: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    required_capabilities: tuple[str, ...] = ()
    safety_assertions: tuple[dict[str, Any], ...] = ()
    policy_requirements: tuple[dict[str, str], ...] = ()
    sla_s: int | None = None


class RuleOutputFacts(Contract):
    """The rule output that is built on: its id, the version of its ruleset, and what it says."""

    rule_output_id: str
    ruleset_version: str
    result: RuleResult


class ConsultationInput(Contract):
    """Who was consulted so far, whether others shall be, and who could be.

    `providers` are those that would be asked now, by agent id; `why_none` says why there are none.
    """

    wanted: bool = False
    providers: tuple[str, ...] = ()
    why_none: str = ""
    consulted: tuple[Consulted, ...] = ()


class DecisionInput(Contract):
    """Everything that a recommendation is made from, as it is stored: the same input gives the same package.

    `actions` are known by name, and under the empty name stands what holds of any other. `unfit` says by
    option why it cannot be proposed. Times are Unix milliseconds, budgets what the flow has left.
    """

    decision_id: str
    dfid: str
    at_ms: int
    objectives: tuple[Objective, ...]
    options: tuple[Option, ...]
    rule_output: RuleOutputFacts | None
    actions: dict[str, ActionFacts]
    unfit: dict[str, str]
    contact: str
    context_id: str | None
    world_version_id: str | None
    time_left_s: int | None
    cost_left_usd: str | None
    salt: str
    # Absent in what was stored before anybody could be consulted.
    consultation: ConsultationInput | None = Field(default=None, exclude_if=is_none)


class SelectedAction(Contract):
    """The action that is recommended."""

    name: str
    parameters: dict[str, JsonValue]
    preconditions: tuple[str, ...]
    expected_effects: tuple[str, ...]
    dependencies: tuple[str, ...]
    required_capabilities: tuple[str, ...]


class TradeOff(Contract):
    """By how much an alternative is better (more than 0) or worse for an objective than what was selected."""

    objective: str
    difference: int | float


class Alternative(Contract):
    """Another option that nothing rules out."""

    id: str
    action: OptionAction
    expected_utility: int | float | None
    confidence: Certainty | None
    trade_offs: tuple[TradeOff, ...]


class Dropped(Contract):
    """An option that was ruled out, and why."""

    id: str
    reason: str


class SafetyAssertion(Contract):
    """A bound that the gate asks of the action."""

    invariant_id: str
    parameters: dict[str, Any]


class PolicyRequirement(Contract):
    """An approval or check that is enforced before the action runs."""

    type: str
    detail: str


class ConfidenceInterpretation(Contract):
    """What the score means; no calibration is applied."""

    calibration_method: str | None
    band: str
    notes: str


class EscalationRoute(Contract):
    """Who is asked, and how long the answer may take as an ISO 8601 duration."""

    contact: str
    SLA: str | None


class References(Contract):
    """What the package stands on."""

    context_id: str | None
    rule_output_id: str | None
    world_version_id: str | None
    CET_version: str | None
    Ruleset_version: str | None
    DER_version: str


class Budgets(Contract):
    """What the flow has left: time as a duration, cost in US dollars; null where nothing bounds it."""

    time: str | None
    cost: str | None


class DecisionPackage(Contract):
    """IAE 3.3.3. `selected_action` is null where nothing can be recommended."""

    decision_id: str
    schema_version: str
    task_id: str
    timestamp: str
    decision_type: DecisionType
    method: Method
    selected_action: SelectedAction | None
    safety_assertions: tuple[SafetyAssertion, ...]
    expected_utility: int | float | None
    confidence_score: Certainty
    confidence_interpretation: ConfidenceInterpretation
    risk_tier: RiskTier
    abstain_threshold: Certainty
    human_review_required: bool
    escalation_route: EscalationRoute
    alternatives: tuple[Alternative, ...]
    dropped: tuple[Dropped, ...]
    reasoning_trace_ref: str
    references: References
    consultations: tuple[dict[str, Any], ...]
    consultation_note: str
    budgets: Budgets
    policy_requirements: tuple[PolicyRequirement, ...]
    consensus: Consensus | None = Field(default=None, exclude_if=is_none)
    # Stored, and sent to nobody.
    salt: str | None = Field(default=None, exclude_if=is_none)
