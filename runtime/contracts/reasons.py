"""Reason codes: UPPER_SNAKE, permanent, one meaning each. A rule adds its own id as a code."""

from enum import StrEnum


class Reason(StrEnum):
    """Why the gate, or the claim that follows it, refused or escalated."""

    INVALID_SCHEMA = "INVALID_SCHEMA"
    CAPABILITY_NOT_FOUND = "CAPABILITY_NOT_FOUND"
    VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
    KIND_UNSAFE = "KIND_UNSAFE"
    UNAUTHORIZED = "UNAUTHORIZED"
    AGENT_UNPINNED = "AGENT_UNPINNED"
    AGENT_PASSIVE = "AGENT_PASSIVE"
    AGENT_LOCKED = "AGENT_LOCKED"
    AGENT_SUSPENDED = "AGENT_SUSPENDED"
    AGENT_RETIRED = "AGENT_RETIRED"
    AGENT_SUPERVISED = "AGENT_SUPERVISED"
    AGENT_READ_ONLY = "AGENT_READ_ONLY"
    LABELLED = "LABELLED"
    APPROVAL_UNPROVED = "APPROVAL_UNPROVED"
    EXPIRED = "EXPIRED"
    REASONING_EXHAUSTION = "REASONING_EXHAUSTION"
    CONTEXT_UNKNOWN = "CONTEXT_UNKNOWN"
    CONTEXT_EXPIRED = "CONTEXT_EXPIRED"
    STALE_CONTEXT = "STALE_CONTEXT"
    CONSTRAINT_VIOLATED = "CONSTRAINT_VIOLATED"
    CONDITION_FAILED = "CONDITION_FAILED"
    RED_LINE_CROSSED = "RED_LINE_CROSSED"
    INVARIANT_VIOLATED = "INVARIANT_VIOLATED"
    INVARIANT_VIOLATED_AFTER = "INVARIANT_VIOLATED_AFTER"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    INVALID_EVIDENCE = "INVALID_EVIDENCE"
    RULESET_MISSING = "RULESET_MISSING"
    RULESET_INCOMPLETE = "RULESET_INCOMPLETE"
    RULESET_CONFLICT = "RULESET_CONFLICT"
    RULESET_GUARDRAIL = "RULESET_GUARDRAIL"
    RULESET_DENIES = "RULESET_DENIES"
    RULESET_REQUIRES = "RULESET_REQUIRES"
    R_FOLLOWS_DECISION = "R_FOLLOWS_DECISION"
    TOOL_NOT_PINNED = "TOOL_NOT_PINNED"
    TOOL_QUARANTINED = "TOOL_QUARANTINED"
    TOOL_SERVER_OFF = "TOOL_SERVER_OFF"
    RATE_LIMITED = "RATE_LIMITED"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    RISK_LIMIT_EXCEEDED = "RISK_LIMIT_EXCEEDED"
    LOW_CONFIDENCE = "LOW_CONFIDENCE"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    TWO_PEOPLE_REQUIRED = "TWO_PEOPLE_REQUIRED"
    REVIEW_REQUESTED = "REVIEW_REQUESTED"
    REVIEW_REQUIRED = "REVIEW_REQUIRED"
    ESCALATION_BUDGET_EXHAUSTED = "ESCALATION_BUDGET_EXHAUSTED"
    CLAIM_FAILED = "CLAIM_FAILED"
    INSUFFICIENT_LIQUIDITY = "INSUFFICIENT_LIQUIDITY"
    RESOURCE_CONTENTION = "RESOURCE_CONTENTION"
    LEASE_ENDED = "LEASE_ENDED"
    RENDERING_FAILED = "RENDERING_FAILED"
    IN_DOUBT = "IN_DOUBT"
    REPEATED_FAILURE = "REPEATED_FAILURE"
    TERMINAL_FAILURE = "TERMINAL_FAILURE"
    ROUTED = "ROUTED"
    CLOSED_BY_ROUTE = "CLOSED_BY_ROUTE"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"
    PARTIAL_SUCCESS_DIRTY = "PARTIAL_SUCCESS_DIRTY"
    CANCELLED_BY_AGENT = "CANCELLED_BY_AGENT"
    ABORTED_BY_PERSON = "ABORTED_BY_PERSON"
    TAKEN_BACK = "TAKEN_BACK"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    IDLE_TOO_LONG = "IDLE_TOO_LONG"
    PARENT_ENDED = "PARENT_ENDED"
    AGENT_SILENT = "AGENT_SILENT"
    SILENCE_OVER = "SILENCE_OVER"
    WORKFLOW_INTERRUPTED = "WORKFLOW_INTERRUPTED"
    POLICY_DEADLOCK = "POLICY_DEADLOCK"
    AWAITING_HUMAN_INPUT = "AWAITING_HUMAN_INPUT"
    TAMPERED = "TAMPERED"
    EFFECT_CONTRADICTED = "EFFECT_CONTRADICTED"
    OUTCOME_NOT_ALLOWED = "OUTCOME_NOT_ALLOWED"
    OUTPUTS_INVALID = "OUTPUTS_INVALID"
    RECEIPT_INVALID = "RECEIPT_INVALID"
    TASK_OVERDUE = "TASK_OVERDUE"


# Why a flow waits for a person before any proposal of its agent.
INTERRUPTS = (Reason.WORKFLOW_INTERRUPTED, Reason.POLICY_DEADLOCK)
# The effect has happened, with a receipt that is not what the policy kind expects of one.
QUESTIONED = (
    Reason.OUTCOME_NOT_ALLOWED,
    Reason.OUTPUTS_INVALID,
    Reason.RECEIPT_INVALID,
    Reason.INVARIANT_VIOLATED_AFTER,
)
# The next step is held back before its call: nothing of it has happened.
PAUSED = (Reason.INVARIANT_VIOLATED, Reason.PRECONDITION_FAILED)
# There is nothing to mark as done: the step was held back, or its own group has not answered.
NOT_DONE = (*PAUSED, Reason.TASK_OVERDUE)

MEANINGS: dict[Reason, str] = {
    Reason.INVALID_SCHEMA: "Parameters or constraints violate the policy kind's JSON Schema.",
    Reason.CAPABILITY_NOT_FOUND: "No active policy kind has this name.",
    Reason.VERSION_UNSUPPORTED: "The policy version named is not the active one.",
    Reason.KIND_UNSAFE: "The active policy kind could block all other work; a new version is needed.",
    Reason.UNAUTHORIZED: "The active manifest does not grant this policy kind, or the session has ended.",
    Reason.AGENT_UNPINNED: (
        "The policy kind is strict, and the active manifest leaves model profile or evaluators open."
    ),
    Reason.AGENT_PASSIVE: "The agent may read, but its proposals are refused until an admin restores it.",
    Reason.AGENT_LOCKED: "The agent is locked while a partially executed flow is being compensated.",
    Reason.AGENT_SUSPENDED: "A person has suspended the agent.",
    Reason.AGENT_RETIRED: "The agent has been retired.",
    Reason.AGENT_SUPERVISED: (
        "The agent's level of autonomy is SUPERVISED: a person decides on all that has an effect."
    ),
    Reason.AGENT_READ_ONLY: (
        "The agent's level of autonomy is READ_ONLY: nothing that has an effect is accepted or called until "
        "an admin raises the level."
    ),
    Reason.APPROVAL_UNPROVED: (
        "The signed decision of the person who made this is missing, or not as signed: nothing is called."
    ),
    Reason.LABELLED: (
        "The agent has received something with a label, and a rule of its manifest asks more of it since."
    ),
    Reason.EXPIRED: "The validity window has ended.",
    Reason.REASONING_EXHAUSTION: "The flow has used its last attempt and is aborted.",
    Reason.CONTEXT_UNKNOWN: "The context_ref is not a snapshot issued to this flow.",
    Reason.CONTEXT_EXPIRED: "The snapshot is older than its time to live.",
    Reason.STALE_CONTEXT: "A fact that the policy kind depends on has changed since the snapshot.",
    Reason.CONSTRAINT_VIOLATED: "One of the agent's own constraints no longer holds.",
    Reason.CONDITION_FAILED: "A condition that a person attached to the decision no longer holds.",
    Reason.RED_LINE_CROSSED: "What the policy kind forbids would happen; no person can allow it.",
    Reason.INVARIANT_VIOLATED: "An invariant that the policy kind asserts does not hold.",
    Reason.INVARIANT_VIOLATED_AFTER: (
        "All steps are done, and an invariant that the policy kind asserts no longer holds."
    ),
    Reason.PRECONDITION_FAILED: "A precondition of the step does not hold right before its call.",
    Reason.INVALID_EVIDENCE: "Evidence that the policy kind requires is missing or too old.",
    Reason.RULESET_MISSING: "A ruleset that the policy kind names was never activated, or was changed.",
    Reason.RULESET_INCOMPLETE: "A feature of a ruleset that the policy kind names has no value.",
    Reason.RULESET_CONFLICT: "Rules of a ruleset that the policy kind names contradict each other.",
    Reason.RULESET_GUARDRAIL: "A guardrail of a ruleset that the policy kind names is triggered.",
    Reason.RULESET_DENIES: "A mandatory rule of a ruleset that the policy kind names says no.",
    Reason.RULESET_REQUIRES: "A mandatory rule asks for something else than what is proposed.",
    Reason.R_FOLLOWS_DECISION: (
        "The policy kind asks that the proposal is what its decision package selected, and that the package "
        "needs no person."
    ),
    Reason.TOOL_NOT_PINNED: "No admin has pinned the tool of the MCP server that the policy kind calls.",
    Reason.TOOL_QUARANTINED: (
        "The MCP server describes the tool otherwise than an admin pinned it, or no longer lists it."
    ),
    Reason.TOOL_SERVER_OFF: "A person has switched the MCP server off.",
    Reason.RATE_LIMITED: "The agent has sent more proposals than its manifest allows in a minute.",
    Reason.POLICY_VIOLATION: "The agent's workflow does not allow this instruction here.",
    Reason.BUDGET_EXCEEDED: "The flow has used more tokens, cost, calls or time than its manifest allows.",
    Reason.RISK_LIMIT_EXCEEDED: "A value is above a limit of the active manifest.",
    Reason.APPROVAL_REQUIRED: "The policy kind asks that a person lets it run.",
    Reason.TWO_PEOPLE_REQUIRED: "Two different people must let it run: it is CRITICAL, or its kind asks so.",
    Reason.LOW_CONFIDENCE: "The confidence is below the threshold, or is required and missing.",
    Reason.REVIEW_REQUESTED: "The agent requested a human decision.",
    Reason.REVIEW_REQUIRED: "The risk tier always requires a human decision.",
    Reason.ESCALATION_BUDGET_EXHAUSTED: "The agent has no escalation token left and becomes PASSIVE.",
    Reason.CLAIM_FAILED: "A claim on a resource could not be computed, or the resource does not exist.",
    Reason.INSUFFICIENT_LIQUIDITY: "The claim would not fit even if every reservation were released.",
    Reason.RESOURCE_CONTENTION: "The claim would fit if other flows released their reservations.",
    Reason.LEASE_ENDED: "The flow waited until its lease on a resource expired.",
    Reason.RENDERING_FAILED: "The policy kind's request could not be rendered from these parameters.",
    Reason.IN_DOUBT: "It is not known whether the call took effect.",
    Reason.REPEATED_FAILURE: "The target failed four times.",
    Reason.TERMINAL_FAILURE: "The target rejected the call permanently.",
    Reason.ROUTED: "A route of the policy kind escalates after this result.",
    Reason.COMPENSATION_FAILED: "A completed step could not be undone; a person must decide.",
    Reason.PARTIAL_SUCCESS_DIRTY: (
        "A flow of the agent has completed only some of its steps; the agent is locked until it is settled."
    ),
    Reason.CLOSED_BY_ROUTE: "A route of the policy kind closes the flow although a step failed.",
    Reason.CANCELLED_BY_AGENT: "The agent withdrew its flow.",
    Reason.ABORTED_BY_PERSON: "A person aborted the escalation.",
    Reason.TAKEN_BACK: "A person took the decision back before anything ran.",
    Reason.DEADLINE_PASSED: "Nobody decided before the deadline.",
    Reason.IDLE_TOO_LONG: "The flow exceeded the idle timeout.",
    Reason.PARENT_ENDED: "The parent flow has ended, and its open children with it.",
    Reason.WORKFLOW_INTERRUPTED: "A router or a checker of the agent's workflow calls a person.",
    Reason.POLICY_DEADLOCK: "The instruction that must come next in the agent's workflow is refused itself.",
    Reason.AWAITING_HUMAN_INPUT: "A person decides how the flow continues; until then no step is allowed.",
    Reason.SILENCE_OVER: "The agent called again, or is no longer monitored.",
    Reason.AGENT_SILENT: "The agent has been silent for longer than its manifest allows during its hours.",
    Reason.TAMPERED: "A stored row does not match the ledger, so nothing was called.",
    Reason.EFFECT_CONTRADICTED: (
        "The call that this one replaces took effect: its receipt arrived after a person had "
        "stated otherwise."
    ),
    Reason.OUTCOME_NOT_ALLOWED: (
        "The effect happened, and what its receipts come to is not an outcome that the policy kind allows."
    ),
    Reason.OUTPUTS_INVALID: (
        "The effect happened, and its outputs do not fit the policy kind's `outputs_schema`."
    ),
    Reason.TASK_OVERDUE: "Nobody of its group carried out a human step before its deadline.",
    Reason.RECEIPT_INVALID: "The step took effect, and its receipt does not fit the step's `receipt_schema`.",
}
