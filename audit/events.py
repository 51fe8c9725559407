"""What can be recorded: one kind, one frozen payload class. Fields are only ever added, with a default.

Texts that may be personal are never in a payload: they stay behind a commitment
(`audit.ledger.commit_payload`).
Times are aware; ids may be given as UUID and are written as text.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from audit.chain import time_text


class Kind(StrEnum):
    """`noun:past_tense`; permanent once written."""

    FLOW_OPENED = "flow:opened"
    FLOW_MOVED = "flow:moved"
    CONTEXT_COMPILED = "context:compiled"
    STEP_REPORTED = "step:reported"
    USAGE_REPORTED = "usage:reported"
    PROPOSAL_SUBMITTED = "proposal:submitted"
    VERDICT_GIVEN = "verdict:given"
    REVIEW_FLAGGED = "review:flagged"
    ESCALATION_OPENED = "escalation:opened"
    ESCALATION_REVISED = "escalation:revised"
    ESCALATION_CLAIMED = "escalation:claimed"
    ESCALATION_RELEASED = "escalation:released"
    ESCALATION_REFUSED = "escalation:refused"
    ESCALATION_DECIDED = "escalation:decided"
    ESCALATION_EXPIRED = "escalation:expired"
    INFORMATION_REQUESTED = "information:requested"
    INFORMATION_ANSWERED = "information:answered"
    INTENT_CREATED = "intent:created"
    INTENT_CANCELLED = "intent:cancelled"
    INTENT_BLOCKED = "intent:blocked"
    INTENT_HELD = "intent:held"
    INTENT_IN_DOUBT = "intent:in_doubt"
    INTENT_RESUMED = "intent:resumed"
    ATTEMPT_STARTED = "attempt:started"
    ATTEMPT_FINISHED = "attempt:finished"
    ATTEMPT_REPORTED_LATE = "attempt:reported_late"
    OUTCOME_RECORDED = "outcome:recorded"
    RESOURCE_CONFIGURED = "resource:configured"
    RESOURCE_RESERVED = "resource:reserved"
    RESOURCE_COMMITTED = "resource:committed"
    RESOURCE_RELEASED = "resource:released"
    AGENT_REGISTERED = "agent:registered"
    AGENT_STATUS_CHANGED = "agent:status_changed"
    AGENT_STOPPED = "agent:stopped"
    AGENT_RESUMED = "agent:resumed"
    MANIFEST_REGISTERED = "manifest:registered"
    MANIFEST_ACTIVATED = "manifest:activated"
    SESSION_OPENED = "session:opened"
    KEY_ISSUED = "key:issued"
    KEY_REVOKED = "key:revoked"
    KIND_REGISTERED = "kind:registered"
    KIND_ACTIVATED = "kind:activated"
    PACK_LOADED = "pack:loaded"
    TARGET_CONFIGURED = "target:configured"
    FACT_WRITTEN = "fact:written"
    BUDGET_SPENT = "budget:spent"
    SYSTEM_STOPPED = "system:stopped"
    SYSTEM_RESUMED = "system:resumed"
    REQUEST_REFUSED = "request:refused"
    USER_ADDED = "user:added"
    USER_ROLES_CHANGED = "user:roles_changed"
    USER_DEACTIVATED = "user:deactivated"
    PAYLOAD_ERASED = "payload:erased"


def _id_text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _plain_text(value: Any) -> Any:
    # A StrEnum member of another layer becomes the text that it stands for.
    return str.__str__(value) if isinstance(value, str) else value


Id = Annotated[str, BeforeValidator(_id_text)]
Text = Annotated[str, BeforeValidator(_plain_text)]
At = Annotated[AwareDatetime, PlainSerializer(time_text, return_type=str)]


class Event(BaseModel):
    """The base of every payload. `payload()` is what the entry stores under `payload`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: ClassVar[Kind]

    def payload(self) -> dict[str, Any]:
        """The fields as plain JSON values; a field that is None is written as null."""
        return self.model_dump(mode="json")


class Reason(BaseModel):
    """One finding of a verdict, by check and code; its words and numbers are in the stored verdict."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    check: Text
    code: Text


class FlowOpened(Event):
    kind = Kind.FLOW_OPENED
    agent_id: str
    trigger_commitment: str
    parent_dfid: Id | None = None
    traceparent: str | None = None


class FlowMoved(Event):
    kind = Kind.FLOW_MOVED
    from_state: Text
    to_state: Text
    reason: Text


class ContextCompiled(Event):
    kind = Kind.CONTEXT_COMPILED
    context_ref: str
    fact_count: int
    expires_at: At


class StepReported(Event):
    """A claim of the agent about its own reasoning; never proof."""

    kind = Kind.STEP_REPORTED
    step_type: Text
    digest: str
    payload_ref: str | None = None
    source_labels: tuple[str, ...] = ()
    summary_commitment: str | None = None


class UsageReported(Event):
    """Deltas as the agent reports them; cost as a decimal string."""

    kind = Kind.USAGE_REPORTED
    tokens: int
    cost_usd: str | None = None


class ProposalSubmitted(Event):
    kind = Kind.PROPOSAL_SUBMITTED
    proposal_id: Id
    author: str
    policy_kind: str
    policy_version: str
    proposal_digest: str
    params_commitment: str
    context_ref: str
    valid_until: At


class VerdictGiven(Event):
    kind = Kind.VERDICT_GIVEN
    proposal_id: Id
    verdict: Text
    reasons: tuple[Reason, ...]
    input_digest: str
    verdict_digest: str
    policy_bundle_hash: str
    gate_version: str
    impact: Text


class ReviewFlagged(Event):
    kind = Kind.REVIEW_FLAGGED
    proposal_id: Id
    guard: str
    code: Text


class EscalationOpened(Event):
    kind = Kind.ESCALATION_OPENED
    escalation_id: Id
    family: Text
    reason: Text
    impact: Text
    revision: int
    evidence_hash: str
    deadline_at: At | None = None


class EscalationRevised(Event):
    kind = Kind.ESCALATION_REVISED
    escalation_id: Id
    revision: int
    evidence_hash: str
    why: Text


class EscalationClaimed(Event):
    kind = Kind.ESCALATION_CLAIMED
    escalation_id: Id


class EscalationReleased(Event):
    kind = Kind.ESCALATION_RELEASED
    escalation_id: Id


class EscalationRefused(Event):
    kind = Kind.ESCALATION_REFUSED
    escalation_id: Id
    action: Text
    code: Text


class EscalationDecided(Event):
    kind = Kind.ESCALATION_DECIDED
    escalation_id: Id
    action: Text
    revision: int
    evidence_hash: str
    statement_digest: str
    signature: str
    key_id: str
    proposal_id: Id | None = None


class EscalationExpired(Event):
    kind = Kind.ESCALATION_EXPIRED
    escalation_id: Id


class InformationRequested(Event):
    kind = Kind.INFORMATION_REQUESTED
    escalation_id: Id
    question_commitment: str


class InformationAnswered(Event):
    kind = Kind.INFORMATION_ANSWERED
    escalation_id: Id
    answer_commitment: str
    payload_ref: str | None = None


class IntentCreated(Event):
    kind = Kind.INTENT_CREATED
    intent_id: Id
    proposal_id: Id
    step_ids: tuple[str, ...]
    request_digest: str
    valid_until: At


class IntentCancelled(Event):
    kind = Kind.INTENT_CANCELLED
    intent_id: Id
    reason: Text


class IntentBlocked(Event):
    """The second check, inside the worker's claim, said no."""

    kind = Kind.INTENT_BLOCKED
    intent_id: Id
    code: Text


class IntentHeld(Event):
    """A stop was pressed between the claim and the call."""

    kind = Kind.INTENT_HELD
    intent_id: Id
    why: Text


class IntentInDoubt(Event):
    kind = Kind.INTENT_IN_DOUBT
    intent_id: Id
    number: int


class IntentResumed(Event):
    kind = Kind.INTENT_RESUMED
    intent_id: Id


class AttemptStarted(Event):
    kind = Kind.ATTEMPT_STARTED
    intent_id: Id
    number: int
    step: str
    target_key: str
    lease_until: At


class AttemptFinished(Event):
    kind = Kind.ATTEMPT_FINISHED
    intent_id: Id
    number: int
    result: Text
    error_category: Text | None = None
    status_code: int | None = None
    receipt_commitment: str | None = None
    next_at: At | None = None


class AttemptReportedLate(Event):
    """An answer that came after the attempt's lease had passed to someone else."""

    kind = Kind.ATTEMPT_REPORTED_LATE
    intent_id: Id
    number: int
    result: Text


class OutcomeRecorded(Event):
    """`deviations` counts the expected effects that were not observed."""

    kind = Kind.OUTCOME_RECORDED
    intent_id: Id
    status: Text
    receipt_commitment: str | None = None
    deviations: int = 0


class ResourceConfigured(Event):
    kind = Kind.RESOURCE_CONFIGURED
    resource: str
    capacity: int
    unit: str


class ResourceReserved(Event):
    kind = Kind.RESOURCE_RESERVED
    resource: str
    amount: int
    lease_until: At | None = None


class ResourceCommitted(Event):
    kind = Kind.RESOURCE_COMMITTED
    resource: str
    amount: int


class ResourceReleased(Event):
    kind = Kind.RESOURCE_RELEASED
    resource: str
    amount: int
    reason: Text


class AgentRegistered(Event):
    kind = Kind.AGENT_REGISTERED
    agent_id: str
    role: Text
    owner: str


class AgentStatusChanged(Event):
    kind = Kind.AGENT_STATUS_CHANGED
    agent_id: str
    from_status: Text
    to_status: Text
    reason: Text


class AgentStopped(Event):
    kind = Kind.AGENT_STOPPED
    agent_id: str
    reason: Text


class AgentResumed(Event):
    kind = Kind.AGENT_RESUMED
    agent_id: str
    reason: Text = ""


class ManifestRegistered(Event):
    kind = Kind.MANIFEST_REGISTERED
    agent_id: str
    version: str
    digest: str


class ManifestActivated(Event):
    kind = Kind.MANIFEST_ACTIVATED
    agent_id: str
    version: str
    digest: str


class SessionOpened(Event):
    kind = Kind.SESSION_OPENED
    agent_id: str
    key_id: str
    manifest_version: str
    protocol_version: str


class KeyIssued(Event):
    kind = Kind.KEY_ISSUED
    key_id: str
    subject: str


class KeyRevoked(Event):
    kind = Kind.KEY_REVOKED
    key_id: str


class KindRegistered(Event):
    kind = Kind.KIND_REGISTERED
    policy_kind: str
    version: str
    digest: str


class KindActivated(Event):
    kind = Kind.KIND_ACTIVATED
    policy_kind: str
    version: str
    digest: str


class PackLoaded(Event):
    kind = Kind.PACK_LOADED
    pack: str
    version: str
    digest: str


class TargetConfigured(Event):
    kind = Kind.TARGET_CONFIGURED
    name: str
    base_url: str
    signed: bool


class FactWritten(Event):
    kind = Kind.FACT_WRITTEN
    path: str
    version: int
    digest: str
    writer: str


class BudgetSpent(Event):
    """Escalation tokens left, in thousandths of a token."""

    kind = Kind.BUDGET_SPENT
    agent_id: str
    tokens_left_milli: int


class SystemStopped(Event):
    kind = Kind.SYSTEM_STOPPED
    reason: Text


class SystemResumed(Event):
    kind = Kind.SYSTEM_RESUMED
    reason: Text = ""


class RequestRefused(Event):
    kind = Kind.REQUEST_REFUSED
    code: Text
    path: str
    detail_digest: str | None = None


class UserAdded(Event):
    kind = Kind.USER_ADDED
    user_id: int
    roles: tuple[Text, ...]


class UserRolesChanged(Event):
    kind = Kind.USER_ROLES_CHANGED
    user_id: int
    roles: tuple[Text, ...]


class UserDeactivated(Event):
    kind = Kind.USER_DEACTIVATED
    user_id: int


class PayloadErased(Event):
    kind = Kind.PAYLOAD_ERASED
    commitment: str
    reason: Text


EVENTS: Mapping[Kind, type[Event]] = MappingProxyType({event.kind: event for event in Event.__subclasses__()})


def read(kind: str, payload: Mapping[str, Any]) -> Event:
    """The event of a stored payload. Members that newer code added are ignored, so that old code can read.

    Raises ValueError for an unknown kind or a payload that lacks a field.
    """
    return EVENTS[Kind(kind)].model_validate(dict(payload), strict=False, extra="ignore")
