"""Bodies of the agent API. Fields are only ever appended, with a default."""

import re
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    StringConstraints,
)

from audit import canonical
from audit.canonical import MAX_SAFE_INTEGER
from runtime.contracts import timestamps
from runtime.contracts.document import is_empty, is_none
from runtime.contracts.source_labels import Labels
from runtime.contracts.states import StepType
from runtime.contracts.workflow import InstructionName

BASE = "/api/v1"
PROTOCOL_VERSION = "1.0.0"
RUNTIME_VERSION = "0.1.0"
MAX_WAIT_S = 30
FACT_PATH = r"^[a-z0-9_]+\.[A-Za-z0-9_\-:]+$"
FACT_PREFIX = r"^[a-z0-9_]+\.[A-Za-z0-9_\-:]*$"
DFID = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
MAX_FACT_PATH_CHARS = 200
MAX_TTL_S = 315_360_000
MAX_TIMER_S = 2_592_000
# The input or the output of one step, as canonical JSON.
MAX_STEP_BYTES = 2_048
MAX_USAGE = 1_000_000_000_000


def _within_bytes(value: dict[str, Any]) -> dict[str, Any]:
    if len(canonical.encode(value)) > MAX_STEP_BYTES:
        raise ValueError(f"must have at most {MAX_STEP_BYTES} bytes")
    return value


At = Annotated[AwareDatetime, PlainSerializer(timestamps.iso, return_type=str)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
SmallObject = Annotated[dict[str, JsonValue], AfterValidator(_within_bytes)]
Version = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Printable = Annotated[str, StringConstraints(pattern=r"^[ -~]+$", max_length=128)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=500)]
CostUsd = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$")]
Dfid = Annotated[
    str,
    StringConstraints(pattern=DFID),
]
# An id of the agent's own users, no name and no address: it stands in the ledger, where nothing is erased.
# It has no colon, so that it never looks like a person or an agent of this house.
UserClaim = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.|~-]*$", max_length=128)]
Digest = Annotated[str, StringConstraints(pattern=r"^(sha256:)?[0-9a-f]{64}$")]
Trigger = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class Body(BaseModel):
    """Base of all bodies: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class HandshakeRequest(Body):
    """Who the agent is and what it wants; no `policy_kinds` means all that its manifest grants."""

    agent_id: Name
    manifest_version: Version
    protocol_version: Version
    policy_kinds: Annotated[tuple[Name, ...], Field(max_length=200)] | None = None
    instance_id: Printable | None = None
    environment: Annotated[str, StringConstraints(pattern=r"^[ -~]+$", max_length=64)] | None = None


class NegotiatedKind(Body):
    """A policy kind that the session may propose, and where its schemas are."""

    kind: str
    version: str
    schema_url: str


class HandshakeAnswer(Body):
    """The session that a handshake gave.

    A new `epoch` says that a backup was restored: ask what became of a call before you repeat it.
    """

    session_token: str
    expires_at: At
    protocol_version: str
    runtime_version: str
    agent_status: str
    # Its level of autonomy: AUTONOMOUS, SUPERVISED or READ_ONLY.
    autonomy: str
    epoch: int
    policy_kinds: tuple[NegotiatedKind, ...]


class SchemaEntry(Body):
    """One line of the list of schemas."""

    kind: str
    version: str
    title: str
    schema_url: str


class SchemaList(Body):
    """The active version of every kind that the agent's manifest grants."""

    policy_kinds: tuple[SchemaEntry, ...]


class SchemaDocument(Body):
    """The JSON Schemas (2020-12) of one version of a policy kind."""

    kind: str
    version: str
    params_schema: dict[str, JsonValue]
    constraints_schema: dict[str, JsonValue]


class FlowRequest(Body):
    """What started the flow: a sentence or an object; and for which user the agent says that it acts."""

    trigger: Trigger | dict[str, JsonValue]
    parent_dfid: Dfid | None = None
    delegated_user_id: UserClaim | None = None


class FlowState(Body):
    """A flow after a change."""

    dfid: str
    state: str


class ModelClaims(Body):
    """What the agent says of the model that it used: nobody checks it. `decoding` is the method, in words."""

    model_version: Printable | None = None
    temperature: (
        Annotated[int, Field(ge=0, le=100)]
        | Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
        | None
    ) = None
    seed: Annotated[int, Field(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)] | None = None
    decoding: Printable | None = None


class UsageRequest(Body):
    """What the agent's reasoning has used since its last report: deltas, cost as a decimal string."""

    tokens: Annotated[int, Field(ge=0, le=MAX_USAGE)]
    cost_usd: CostUsd | None = None
    tool_calls: Annotated[int, Field(ge=0, le=MAX_USAGE)] | None = None
    model: ModelClaims | None = None


class ComputeLeft(Body):
    """What is left of the flow's compute budget; null where nothing bounds it."""

    tokens_left: int | None = None
    cost_left_usd: str | None = None
    tool_calls_left: int | None = None
    wall_clock_left_s: int | None = None


class UsageAnswer(ComputeLeft):
    """What is left after a report, and how the flow stands."""

    state: str


class FlowBudget(ComputeLeft):
    """What is left of the agent's escalation tokens and of the flow's compute budget."""

    escalation_tokens: int


class NextStep(Body):
    """The instruction that a router demands, which router, and why."""

    instruction: str
    policy: str
    reason: str


class FlowPosition(Body):
    """Where a flow stands in the workflow that it follows."""

    position: str | None
    next: NextStep | None
    reliability: int


class FlowView(Body):
    """A flow as its agent sees it."""

    dfid: str
    state: str
    reason: str | None
    attempts_left: int
    parent_dfid: str | None
    children: tuple[str, ...]
    budget: FlowBudget
    # The agent's level of autonomy: AUTONOMOUS, SUPERVISED or READ_ONLY.
    autonomy: str
    workflow: FlowPosition | None = Field(default=None, exclude_if=is_none)


class StepRequest(Body):
    """A claim of the agent about its own reasoning; `digest` is the SHA-256 of what it stands for, in hex."""

    step_type: StepType
    digest: Digest
    payload_ref: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=500)] | None = None
    source_labels: Labels = ()
    summary: Annotated[str, StringConstraints(min_length=1, max_length=2000)] | None = None


class StepAnswer(Body):
    """The number of the step's entry in the flow's stream."""

    seq: int


class InstructionCheck(Body):
    """A step that the agent wants to take, by the workflow that its flow follows."""

    instruction: InstructionName
    input: SmallObject = Field(default_factory=dict)


class InstructionRequest(InstructionCheck):
    """A step that the agent has taken; `check_id` names the check that allowed it."""

    step_type: Literal["instruction"] = "instruction"
    output: SmallObject = Field(default_factory=dict)
    check_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


class StepFinding(Body):
    """What speaks against a step: a policy of the workflow, or `graph`, `next`, `max_visits`, `check_id`."""

    check: str
    code: str
    policy: str
    message: str
    retry_after_s: int | None = Field(default=None, exclude_if=is_none)


class CheckAnswer(Body):
    """Whether the step may be taken, within 60 s under `check_id`; else maybe an escalation."""

    allowed: bool
    findings: tuple[StepFinding, ...]
    check_id: str | None = None
    escalation_id: str | None = Field(default=None, exclude_if=is_none)


class StepTakenAnswer(StepAnswer):
    """A step that was taken, and what a router demands next; of INTERRUPT also the escalation."""

    next: NextStep | None
    escalation_id: str | None = Field(default=None, exclude_if=is_none)


class StepRefusedAnswer(Body):
    """A step that moved nothing, and why; the escalation where no other step is possible either."""

    findings: tuple[StepFinding, ...]
    escalation_id: str | None = Field(default=None, exclude_if=is_none)


class AnswerRequest(Body):
    """What the agent says to a person's question; `number` names the question, else it is the newest."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"\S")]
    payload_ref: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=500)] | None = None
    number: Annotated[int, Field(ge=1, le=99)] | None = None


class AnswerView(Body):
    """An answer that is stored, and to which question of which escalation."""

    escalation_id: str
    number: int
    answered_at: At


class ReasonRequest(Body):
    """Why a flow is cancelled or closed."""

    reason: Words


class EmptyRequest(Body):
    """A body without members."""


class ContextAnswer(Body):
    """A frozen context; `context_ref` is the SHA-256 of canonical `context` without `snapshot_id`."""

    context_ref: str
    context: dict[str, JsonValue]
    expires_at: At


class FeedbackEvent(Body):
    """One thing that the agent is told about its flow."""

    seq: int
    event_type: str
    at: At
    data: JsonValue


class FeedbackAnswer(Body):
    """Events in order; `next` is the `after` of the following call."""

    events: tuple[FeedbackEvent, ...]
    next: int


class AgentEventsAnswer(FeedbackAnswer):
    """Events of the agent itself. `gap`: some past `after` are no longer kept, so look at everything anew."""

    gap: bool


class TimerRequest(Body):
    """When to wake the agent, and a word that comes back with the event."""

    after_s: Annotated[int, Field(ge=1, le=MAX_TIMER_S)]
    label: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class TimerAnswer(Body):
    """A timer that runs."""

    timer_id: str
    due_at: At


class MemoryRequest(Body):
    """A value to remember: any JSON value, where it comes from, and for how long it is worth keeping."""

    value: JsonValue
    source: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(:[!-~]+)?$", max_length=200)]
    ttl_s: Annotated[int, Field(ge=1, le=MAX_TTL_S)] | None = None


class MemoryAnswer(Body):
    """A version that was just written; `quarantined`: it reaches no context until an admin releases it.

    `reasons` say why it waits, as codes; without it there are none.
    """

    scope: str
    key: str
    version: int
    digest: str
    quarantined: bool
    reasons: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    expires_at: At | None


class MemoryView(Body):
    """What is in force under a key."""

    scope: str
    key: str
    version: int
    value: JsonValue
    source: str
    writer: str
    written_at: str
    expires_at: str | None


class ArtifactRequest(Body):
    """A reference to content that is kept elsewhere."""

    digest: Digest
    media_type: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$", max_length=128),
    ]
    size_bytes: Annotated[int, Field(ge=0, le=MAX_USAGE)]
    location: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=500)]
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ArtifactAnswer(Body):
    """A reference that is registered."""

    digest: str
    registered_at: At


class VerdictReason(BaseModel):
    """Why: the check, its code and, for a bound, the two values compared."""

    code: str
    check: str
    message: str
    proposed_value: JsonValue = None
    limit: JsonValue = None


class VerdictAnswer(BaseModel):
    """The verdict on a proposal."""

    dfid: str
    proposal_id: str
    verdict: Literal["ACCEPT", "REJECT", "ESCALATE"]
    reasons: tuple[VerdictReason, ...]
    state: str
    attempts_left: int
    valid_until: str
    intent_id: str | None = None
    escalation_id: str | None = None
    evidence_hash: str | None = None
    retry_after_s: int | None = None


class ViolationDocument(BaseModel):
    """One broken rule: where (JSON pointer) and what."""

    pointer: str
    message: str


class ProblemDocument(BaseModel):
    """RFC 9457, with a code that never changes and whether the same call may succeed later."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    violations: list[ViolationDocument]
    retriable: bool
    dfid: str | None = None
    supported: str | None = None


class BatchItem(BaseModel):
    """The answer to one proposal of a batch: its HTTP status, and its verdict or its problem."""

    status: int
    body: VerdictAnswer | None = None
    problem: ProblemDocument | None = None


class BatchAnswer(BaseModel):
    """The answers to a batch, in the order of its proposals."""

    answers: tuple[BatchItem, ...]


def uuid_of(text: str) -> UUID | None:
    """The id that a text names in its one usual form; None for any other text."""
    return UUID(text) if re.fullmatch(DFID, text, re.ASCII) else None


def schema_url(kind: str, version: str) -> str:
    """Where the schemas of one version of a kind are served."""
    return f"{BASE}/schema/policy/{kind}/{version}"


def etag_of_version(version: int) -> str:
    """The entity tag of a fact's version."""
    return f'"{version}"'


def plain(model: BaseModel) -> Any:
    """The members as plain JSON values."""
    return model.model_dump(mode="json")
