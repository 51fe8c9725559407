"""Everything the gate may know besides the proposal and the rules, frozen at one moment."""

from typing import Any

from pydantic import Field

from runtime.contracts.document import Contract, is_none
from runtime.contracts.reasons import Reason
from runtime.contracts.ruleset import CedarAnswers
from runtime.contracts.states import AgentRole, AgentStatus, AutonomyLevel
from runtime.contracts.workflow import StepHistory, WorkflowFold


class AgentFacts(Contract):
    """Who proposes, as the registry knows it."""

    agent_id: str
    role: AgentRole
    status: AgentStatus
    owner: str


class FlowFacts(Contract):
    """The flow the proposal belongs to; `opened_at_ms` is Unix milliseconds."""

    state: str
    attempts_used: int
    attempts_allowed: int
    opened_at_ms: int
    trigger: Any


class SnapshotFacts(Contract):
    """What the author was shown: fact path to value, and until when the snapshot may be used."""

    facts: dict[str, Any]
    expires_at_ms: int


class Lift(Contract):
    """A Refer finding that a person saw and lifts; with a number, up to that number and no further."""

    check: str
    code: str
    subject: str
    proposed_value: str | None


class ComputeFacts(Contract):
    """Caps and use of the flow's compute budget; None bounds nothing. Money in micro-dollars, time in ms."""

    tokens_cap: int | None
    tokens_used: int
    cost_cap_micros: int | None
    cost_used_micros: int
    tool_calls_cap: int | None
    tool_calls_used: int
    ends_at_ms: int | None


class ResourceFacts(Contract):
    """A resource that the kind claims. `reserved` is what other flows hold, `committed` what is used up."""

    name: str
    unit: str
    capacity: int
    reserved: int
    committed: int


class DecisionFacts(Contract):
    """The decision package of the flow that the proposal names; `action` is empty where it selected none."""

    decision_id: str
    action: str
    params: dict[str, Any]
    needs_person: bool


class ToolFacts(Contract):
    """A tool of an MCP server: the digest of its pinned description, or why it is refused."""

    server: str
    tool: str
    pinned: str
    refused: Reason | None = None


class Facts(Contract):
    """`world` is the live facts by path; `history` is loaded only where a rule or a rate limit reads it.

    `resources` are those that the kind claims, loaded only where it claims any.
    """

    agent: AgentFacts
    session_valid: bool
    flow: FlowFacts
    world: dict[str, Any]
    snapshot: SnapshotFacts | None
    history: dict[str, int] | None
    escalation_tokens: int
    lifts: tuple[Lift, ...] = ()
    # Appended: left out where it is not there, so that what was stored before is written back as it was.
    compute: ComputeFacts | None = Field(default=None, exclude_if=is_none)
    resources: tuple[ResourceFacts, ...] | None = Field(default=None, exclude_if=is_none)
    # When the required evidence came, in Unix milliseconds, by sort and name (`step:self_check`).
    evidence: dict[str, int] | None = Field(default=None, exclude_if=is_none)
    # How old required facts may be, in seconds, where the ontology says it and the kind does not; by name.
    max_ages: dict[str, int] | None = Field(default=None, exclude_if=is_none)
    # The decision package that the proposal names, loaded only where the kind asks for one.
    decision: DecisionFacts | None = Field(default=None, exclude_if=is_none)
    # Why the kind in force is not evaluated; no value where it is.
    unsafe: str | None = Field(default=None, exclude_if=is_none)
    # Where the flow stands in the workflow of the rules; no value where they name none.
    workflow: WorkflowFold | None = Field(default=None, exclude_if=is_none)
    # The steps of the flow in it, loaded only where the kind reads them.
    steps: StepHistory | None = Field(default=None, exclude_if=is_none)
    # The tools of MCP servers that the kind calls, loaded only where it calls any.
    tools: tuple[ToolFacts, ...] | None = Field(default=None, exclude_if=is_none)
    # The agent's level of autonomy as the ledger has it; no value where it is AUTONOMOUS.
    autonomy: AutonomyLevel | None = Field(default=None, exclude_if=is_none)
    # The labels that the agent has, in order, loaded only where the manifest or the kind asks for them.
    labels: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)
    # Which version of each fact of `world` was read, and the last numbered version of the world then.
    world_versions: dict[str, int] | None = Field(default=None, exclude_if=is_none)
    world_version_id: int | None = Field(default=None, exclude_if=is_none)
    # What the Cedar policies of the kind's rulesets said, by `name@version`; loaded only where there are any.
    cedar: dict[str, CedarAnswers] | None = Field(default=None, exclude_if=is_none)
