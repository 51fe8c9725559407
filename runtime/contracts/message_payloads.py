"""The payloads of the ten message types (IAE 3.4.2), as pydantic contracts; members may be added to each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import AwareDatetime, Field, JsonValue
from pydantic import StringConstraints as Text

from runtime.contracts.capability import CapabilityName, CostModel, Sla
from runtime.contracts.message import (
    MAX_ITEMS,
    Amount,
    Budgets,
    ErrorCode,
    MessageType,
    Open,
    Prose,
    Reference,
    Short,
    Version,
)
from runtime.contracts.states import Choice

Shorts = Annotated[tuple[Short, ...], Field(max_length=MAX_ITEMS)]
Versions = Annotated[tuple[Version, ...], Field(max_length=MAX_ITEMS)]
Share = Annotated[int | float, Field(ge=0, le=1, allow_inf_nan=False)]
Day = Annotated[str, Text(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$")]


class HealthStatus(Choice):
    """What a provider says of itself."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class CapabilityAdvertise(Open):
    """What a provider offers. Each member is its claim, and only names that its manifest grants are taken."""

    capability_name: CapabilityName
    versions: Annotated[tuple[Version, ...], Field(min_length=1, max_length=MAX_ITEMS)]
    SLA: Sla | None = None
    cost_model: CostModel | None = None
    auth_requirements: Shorts = ()
    privacy_level: Short | None = None
    health: HealthStatus = HealthStatus.HEALTHY
    schema_refs: Shorts = ()
    tags: Shorts = ()
    jurisdiction: Shorts = ()
    health_endpoint: Short | None = None


class QueryConstraints(Open):
    """What a provider must keep to: 95th percentile in milliseconds, cost of a call, and jurisdiction."""

    latency_ms: Amount | None = None
    cost_ceiling: Amount | None = None
    jurisdiction: Short | None = None


class CapabilityQuery(Open):
    """Who offers this?"""

    capability_name: CapabilityName
    constraints: QueryConstraints = QueryConstraints()
    required_schema: Short | None = None


class Provider(Open):
    """One provider, as the registry has it."""

    provider_agent_id: Short
    capability_name: CapabilityName


class CapabilityResolution(Open):
    """The registry's answer to a query."""

    providers: Annotated[tuple[Provider, ...], Field(max_length=100)]


class ConsultationRequest(Open):
    """A question to a provider. `expected_output_schema` is a JSON Schema of the answer."""

    question: Prose
    constraints: dict[str, JsonValue] = Field(default_factory=dict)
    context_refs: Shorts = ()
    expected_output_schema: dict[str, JsonValue] | None = None


class Dissent(Open):
    """What one voice said against the answer."""

    summary: Prose
    voice: Short | None = None


class ConsensusMetrics(Open):
    """How far the voices behind the answer agree, from 0 to 1, and how many they are."""

    agreement: Share | None = None
    voices: Annotated[int, Field(ge=0, le=1000)] | None = None


class ConsultationResponse(Open):
    """The answer, how far those behind it agree, and what it cost."""

    answer: JsonValue
    consensus_metrics: ConsensusMetrics = ConsensusMetrics()
    dissent_summaries: Annotated[tuple[Dissent | Prose, ...], Field(max_length=MAX_ITEMS)] = ()
    citations: Shorts = ()
    cost: Amount | None = None
    latency: Amount | None = None


class Heartbeat(Open):
    """How a provider is. `uptime` in seconds, `load` from 0."""

    status: HealthStatus
    uptime: Amount | None = None
    load: Amount | None = None
    planned_downtime: Short | None = None


class BudgetUpdate(Open):
    """Other limits, why, and for how long."""

    new_limits: Budgets
    rationale: Prose
    validity_window: dict[str, JsonValue] | None = None


class Error(Open):
    """Why the message named by `correlation_id` came to nothing. `backoff_hint` in seconds."""

    code: ErrorCode
    message: Prose
    retriable: bool
    backoff_hint: Amount | None = None
    schema_mismatch_info: JsonValue = None


class VersionNegotiation(Open):
    """The versions that the sender proposes or accepts, and when it stops accepting some of them."""

    proposed_versions: Versions = ()
    accepted_versions: Versions = ()
    deprecation_dates: Annotated[dict[Version, Day], Field(max_length=MAX_ITEMS)] = Field(
        default_factory=dict
    )


class Cancel(Open):
    """The sender no longer wants what it asked for."""

    cancellation_reason: Prose
    effective_at: AwareDatetime | None = None
    message_id: Reference | None = None


PAYLOADS: Mapping[MessageType, type[Open]] = MappingProxyType(
    {
        MessageType.CAPABILITY_ADVERTISE: CapabilityAdvertise,
        MessageType.CAPABILITY_QUERY: CapabilityQuery,
        MessageType.CAPABILITY_RESOLUTION: CapabilityResolution,
        MessageType.CONSULTATION_REQUEST: ConsultationRequest,
        MessageType.CONSULTATION_RESPONSE: ConsultationResponse,
        MessageType.HEARTBEAT: Heartbeat,
        MessageType.BUDGET_UPDATE: BudgetUpdate,
        MessageType.ERROR: Error,
        MessageType.VERSION_NEGOTIATION: VersionNegotiation,
        MessageType.CANCEL: Cancel,
    }
)
