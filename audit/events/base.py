"""The kinds of entries and the base of every payload."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, Strict

from audit.chain import time_text


class Kind(StrEnum):
    """`noun:past_tense`; permanent once written."""

    FLOW_OPENED = "flow:opened"
    FLOW_MOVED = "flow:moved"
    FLOW_ERASED = "flow:erased"
    CHILD_OPENED = "child:opened"
    CONTEXT_COMPILED = "context:compiled"
    STEP_REPORTED = "step:reported"
    USAGE_REPORTED = "usage:reported"
    REDACTION_APPLIED = "redaction:applied"
    PROPOSAL_SUBMITTED = "proposal:submitted"
    VERDICT_GIVEN = "verdict:given"
    ESCALATION_OPENED = "escalation:opened"
    ESCALATION_REVISED = "escalation:revised"
    ESCALATION_CLAIMED = "escalation:claimed"
    ESCALATION_RELEASED = "escalation:released"
    ESCALATION_TAKEN_OVER = "escalation:taken_over"
    ESCALATION_HANDED_OVER = "escalation:handed_over"
    ESCALATION_REFUSED = "escalation:refused"
    ESCALATION_DECIDED = "escalation:decided"
    ESCALATION_FIRST_DECIDED = "escalation:first_decided"
    ESCALATION_FIRST_ENDED = "escalation:first_ended"
    ESCALATION_REOPENED = "escalation:reopened"
    ESCALATION_EXPIRED = "escalation:expired"
    ESCALATION_WITHDRAWN = "escalation:withdrawn"
    INFORMATION_REQUESTED = "information:requested"
    INFORMATION_ANSWERED = "information:answered"
    INFORMATION_CLOSED = "information:closed"
    INTENT_CREATED = "intent:created"
    INTENT_CANCELLED = "intent:cancelled"
    INTENT_BLOCKED = "intent:blocked"
    INTENT_HELD = "intent:held"
    INTENT_IN_DOUBT = "intent:in_doubt"
    INTENT_RESUMED = "intent:resumed"
    INTENT_WOKEN = "intent:woken"
    INTENT_DELAYED = "intent:delayed"
    INTENT_RELEASED = "intent:released"
    INTENT_RETURNED = "intent:returned"
    INTENT_SUPERSEDED = "intent:superseded"
    ATTEMPT_STARTED = "attempt:started"
    ATTEMPT_FINISHED = "attempt:finished"
    ATTEMPT_REPORTED_LATE = "attempt:reported_late"
    ATTEMPT_SETTLED = "attempt:settled"
    STATUS_QUERY_STARTED = "status_query:started"
    STATUS_QUERY_FINISHED = "status_query:finished"
    EFFECT_STATED = "effect:stated"
    SAGA_ADVANCED = "saga:advanced"
    SAGA_DIRTIED = "saga:dirtied"
    SAGA_COMPENSATED = "saga:compensated"
    ROUTE_TAKEN = "route:taken"
    ROUTE_FAILED = "route:failed"
    OUTCOME_RECORDED = "outcome:recorded"
    OUTCOME_NAMED = "outcome:named"
    RESOURCE_CONFIGURED = "resource:configured"
    RESOURCE_RESERVED = "resource:reserved"
    RESOURCE_PINNED = "resource:pinned"
    RESOURCE_COMMITTED = "resource:committed"
    RESOURCE_RELEASED = "resource:released"
    AGENT_REGISTERED = "agent:registered"
    AGENT_EDITED = "agent:edited"
    AGENT_OWNER_CHANGE_ASKED = "agent:owner_change_asked"
    AGENT_OWNER_CHANGED = "agent:owner_changed"
    AGENT_OWNER_CHANGE_DROPPED = "agent:owner_change_dropped"
    AGENT_STATUS_CHANGED = "agent:status_changed"
    AGENT_STOPPED = "agent:stopped"
    AGENT_RESUMED = "agent:resumed"
    AGENT_ADVISED = "agent:advised"
    MANIFEST_REGISTERED = "manifest:registered"
    MANIFEST_ACTIVATED = "manifest:activated"
    MANIFEST_DISCARDED = "manifest:discarded"
    SESSION_OPENED = "session:opened"
    KEY_ISSUED = "key:issued"
    KEY_REVOKED = "key:revoked"
    KIND_REGISTERED = "kind:registered"
    KIND_ACTIVATED = "kind:activated"
    KIND_DISCARDED = "kind:discarded"
    PACK_LOADED = "pack:loaded"
    TARGET_CONFIGURED = "target:configured"
    TARGET_CHECKED = "target:checked"
    CIRCUIT_OPENED = "circuit:opened"
    CIRCUIT_CLOSED = "circuit:closed"
    FACT_WRITTEN = "fact:written"
    FACT_NOT_WRITTEN = "fact:not_written"
    MEMORY_READ = "memory:read"
    MEMORY_WRITTEN = "memory:written"
    MEMORY_RELEASED = "memory:released"
    MEMORY_DISCARDED = "memory:discarded"
    ARTIFACT_REGISTERED = "artifact:registered"
    BUDGET_SPENT = "budget:spent"
    BUDGET_REFILLED = "budget:refilled"
    SYSTEM_STOPPED = "system:stopped"
    SYSTEM_RESUMED = "system:resumed"
    EPOCH_RESTORED = "epoch:restored"
    EPOCH_BEGUN = "epoch:begun"
    REQUEST_REFUSED = "request:refused"
    GROUP_ADDED = "group:added"
    LIMIT_CHANGED = "limit:changed"
    USER_ADDED = "user:added"
    USER_INVITED = "user:invited"
    USER_DEACTIVATED = "user:deactivated"
    USER_REACTIVATED = "user:reactivated"
    USER_SESSIONS_ENDED = "user:sessions_ended"
    USER_ROLES_CHANGED = "user:roles_changed"
    USER_PASSWORD_CHANGED = "user:password_changed"  # noqa: S105  # a kind of entry, not a password
    USER_SIGNED_IN = "user:signed_in"
    USER_SIGNED_OUT = "user:signed_out"
    USER_CONFIRMATION_FAILED = "user:confirmation_failed"
    USER_PAUSED = "user:paused"
    SIGNIN_FAILED = "signin:failed"
    WHATIF_ANSWERED = "whatif:answered"
    GUARD_CONFIGURED = "guard:configured"
    GUARD_SWITCHED = "guard:switched"
    GUARD_FAILED = "guard:failed"
    REVIEW_FLAGGED = "review:flagged"
    REVIEW_CLOSED = "review:closed"
    NOTIFICATION_ROUTE_ADDED = "notification_route:added"
    NOTIFICATION_ROUTE_CHANGED = "notification_route:changed"
    NOTIFICATION_ROUTE_SWITCHED = "notification_route:switched"
    NOTIFICATION_ROUTE_DELETED = "notification_route:deleted"
    NOTIFICATION_ROUTE_TESTED = "notification_route:tested"
    NOTE_WRITTEN = "note:written"
    SHIFT_HANDED_OVER = "shift:handed_over"
    DEMO_SCENARIO_STARTED = "demo:scenario_started"
    DEMO_SCENARIO_ENDED = "demo:scenario_ended"
    PAYLOAD_ERASED = "payload:erased"
    PAYLOAD_KEY_ROTATED = "payload_key:rotated"
    PAYLOAD_KEY_REWRAPPED = "payload_key:rewrapped"
    PAYLOAD_KEY_DESTROYED = "payload_key:destroyed"
    SIGNING_KEY_BEGUN = "signing_key:begun"
    RECORD_EMITTED = "record:emitted"
    RECORD_SCORED = "record:scored"
    RECORD_FEEDBACK_GIVEN = "record:feedback_given"
    STRATEGY_RULE_PROPOSED = "strategy_rule:proposed"
    ROW_MISMATCHED = "row:mismatched"
    INCIDENT_OPENED = "incident:opened"
    INCIDENT_JOINED = "incident:joined"
    INCIDENT_LINKED = "incident:linked"
    INCIDENT_UNLINKED = "incident:unlinked"
    INCIDENT_MOVED = "incident:moved"
    INCIDENT_EDITED = "incident:edited"
    INCIDENT_NOTED = "incident:noted"
    INCIDENT_ACTION_ADDED = "incident:action_added"
    INCIDENT_ACTION_DONE = "incident:action_done"
    POST_MORTEM_SAVED = "post_mortem:saved"
    POST_MORTEM_SIGNED = "post_mortem:signed"
    INCIDENT_RULE_DRAFTED = "incident_rule:drafted"
    INCIDENT_RULE_ACTIVATED = "incident_rule:activated"
    INCIDENT_RULE_ENDED = "incident_rule:ended"
    FACTS_PRUNED = "facts:pruned"
    HOLD_PLACED = "hold:placed"
    HOLD_RELEASED = "hold:released"
    REPLAY_RUN_STARTED = "replay:run_started"
    REPLAY_RUN_ENDED = "replay:run_ended"
    RECEIVER_ADDED = "receiver:added"
    RECEIVER_CHANGED = "receiver:changed"
    RECEIVER_PAUSED = "receiver:paused"
    RECEIVER_RESUMED = "receiver:resumed"
    RECEIVER_MOVED = "receiver:moved"
    RECEIVER_TESTED = "receiver:tested"


def _id_text(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _plain_text(value: Any) -> Any:
    # A StrEnum member of another layer becomes the text that it stands for.
    return str.__str__(value) if isinstance(value, str) else value


Id = Annotated[str, BeforeValidator(_id_text)]
Text = Annotated[str, BeforeValidator(_plain_text)]
Names = Annotated[tuple[Text, ...], Strict(False)]  # a list will do
Numbers = Annotated[tuple[int, ...], Strict(False)]
At = Annotated[AwareDatetime, PlainSerializer(time_text, return_type=str)]


class Event(BaseModel):
    """The base of every payload. `payload()` is what the entry stores under `payload`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: ClassVar[Kind]

    def payload(self) -> dict[str, Any]:
        """The fields as plain JSON values; a field that is None is written as null."""
        return self.model_dump(mode="json")
