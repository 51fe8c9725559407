"""Everything the gate may know besides the proposal and the rules, frozen at one moment."""

from typing import Any

from runtime.contracts.policy_kind import Contract
from runtime.contracts.states import AgentRole, AgentStatus


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


class Facts(Contract):
    """`world` is the live facts by path; `history` is loaded only where a rule or a rate limit reads it."""

    agent: AgentFacts
    session_valid: bool
    flow: FlowFacts
    world: dict[str, Any]
    snapshot: SnapshotFacts | None
    history: dict[str, int] | None
    escalation_tokens: int
    lifts: tuple[Lift, ...] = ()
