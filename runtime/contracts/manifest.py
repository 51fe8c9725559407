"""A manifest: what one agent may do, as an immutable versioned document.

Only the active manifest grants anything. Nothing an agent sends can widen it.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints

from runtime.contracts.autonomy import AutonomyRule
from runtime.contracts.calibration import ConfidenceUse, is_stated
from runtime.contracts.consultation import ConsultationBudget
from runtime.contracts.document import Contract, Id, RuleDocument, is_empty, is_none
from runtime.contracts.kind_types import Environment, KindName, SemVer, Slug
from runtime.contracts.signed_proposal import PublicKey
from runtime.contracts.source_labels import Label, LabelRule, LabelSeconds

DEFAULT_RETRY_WINDOW_S = 600

Decimal = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$")]
AgentId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
FactSelector = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}\.([A-Za-z0-9_-]{1,64})?$", max_length=129)
]
# A suite of evaluators, mostly with its version: standard@1.0.0.
SuiteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
# A workflow with its version: research-then-trade@1.0.0.
WorkflowName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*@[0-9][A-Za-z0-9.+-]*$", max_length=130)
]
TimeOfDay = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


def _no_fractions(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError("a limit is an integer in minor units or a decimal string, never a float")
    return value


def _namespace(value: Any) -> Any:
    return value[:-1] if isinstance(value, str) and value.endswith(".*") else value


def _as_scope(value: Any) -> Any:
    return {"scope": value} if isinstance(value, str) else value


LimitValue = Annotated[int | str | bool | tuple[int | str, ...] | float, AfterValidator(_no_fractions)]


class Weekday(StrEnum):
    """Days of the silence watchdog's hours."""

    MON = "MON"
    TUE = "TUE"
    WED = "WED"
    THU = "THU"
    FRI = "FRI"
    SAT = "SAT"
    SUN = "SUN"


class MemoryAccess(StrEnum):
    """What an agent may do in a memory scope."""

    READ = "READ"
    WRITE = "WRITE"
    READ_WRITE = "READ_WRITE"


class Hours(Contract):
    """When the agent is expected to be awake."""

    days: tuple[Weekday, ...] = tuple(Weekday)
    opens: TimeOfDay = "00:00"
    closes: TimeOfDay = "23:59"
    zone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")] = "UTC"


class Compute(Contract):
    """Caps per flow: tokens, cost as a decimal string, tool calls, and seconds since its opening."""

    tokens: Annotated[int, Field(ge=0, le=1_000_000_000_000)] | None = None
    cost_usd: Decimal | None = None
    tool_calls: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = Field(default=None, exclude_if=is_none)
    wall_clock_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)


class MemoryScope(Contract):
    """A memory scope and the access to it; a bare name means reading."""

    scope: Slug
    # Behind a before-validator pydantic no longer knows that the input was JSON, and strict enums fail.
    access: Annotated[MemoryAccess, Field(strict=False)] = MemoryAccess.READ
    # More writes of the agent within a minute wait in quarantine; without it, DEFAULT_WRITES_PER_MINUTE.
    writes_per_minute: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, exclude_if=is_none)


class ManifestDocument(RuleDocument):
    """The rights and bounds of one agent at one version.

    `limits` are the numbers that limit expressions read. `scope` narrows parameters: a parameter named
    there must have one of the listed values. `subscribes` holds exact fact paths or namespaces (`price.`).
    """

    version: SemVer
    policy_kinds: tuple[KindName, ...]
    limits: dict[Id, LimitValue] = Field(default_factory=dict)
    scope: dict[Id, tuple[JsonValue, ...]] = Field(default_factory=dict)
    subscribes: tuple[Annotated[FactSelector, BeforeValidator(_namespace)], ...] = ()
    escalate_below_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    escalations_per_hour: Annotated[int, Field(ge=0, le=3600)] = 3
    max_intent_retries: Annotated[int, Field(ge=1, le=100)] = 3
    proposals_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = None
    waive_tier3_review: bool = False
    compute: Compute | None = None
    hours: Hours | None = None
    silent_after_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    memory_scopes: tuple[Annotated[MemoryScope, BeforeValidator(_as_scope)], ...] = ()
    may_delegate_to: tuple[AgentId, ...] = ()
    model_profile: Slug | None = None
    prompt_bundle_hash: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:_-]{1,128}$")] | None = None
    evaluator_suite: SuiteName | None = None
    # How long a rejected try counts for those in other flows; without it, DEFAULT_RETRY_WINDOW_S.
    retry_window_s: Annotated[int, Field(ge=1, le=86_400)] | None = Field(default=None, exclude_if=is_none)
    # What the steps of its flows follow, from their first step on.
    workflow: WorkflowName | None = Field(default=None, exclude_if=is_none)
    # Whether what it states is compared as it is, or as its active calibration maps have it.
    confidence: ConfidenceUse = Field(default=ConfidenceUse.STATED, exclude_if=is_stated)
    # To whom it may send messages; without it, to every agent of its tenant.
    messages_to: Annotated[tuple[AgentId, ...], Field(max_length=200)] | None = Field(
        default=None, exclude_if=is_none
    )
    # Raw Ed25519 public key in base64: with it, only messages that carry its signature are taken.
    message_key: PublicKey | None = Field(default=None, exclude_if=is_none)
    # The same for proposals.
    proposal_key: PublicKey | None = Field(default=None, exclude_if=is_none)
    # What it may advertise to other agents; without it, everything.
    advertises: Annotated[tuple[Slug, ...], Field(max_length=200)] | None = Field(
        default=None, exclude_if=is_none
    )
    # What lowers its level of autonomy; without it, the defaults of `runtime.contracts.autonomy`.
    autonomy: AutonomyRule | None = Field(default=None, exclude_if=is_none)
    # Where it may work, as its key says; without any, everywhere.
    environments: Annotated[tuple[Environment, ...], Field(max_length=20)] = Field(
        default=(), exclude_if=is_empty
    )
    # What is asked once it has a label; and after how many seconds a label ends by itself.
    label_rules: Annotated[tuple[LabelRule, ...], Field(max_length=50)] = Field(
        default=(), exclude_if=is_empty
    )
    labels_end_after_s: Annotated[dict[Label, LabelSeconds], Field(max_length=200)] = Field(
        default_factory=dict, exclude_if=is_empty
    )
    # What its flows may spend on consulting other agents; without it, they consult nobody.
    consultations: ConsultationBudget | None = Field(default=None, exclude_if=is_none)
