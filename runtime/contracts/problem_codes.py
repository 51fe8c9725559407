"""Problem codes: UPPER_SNAKE, permanent, one meaning each; docs/problems.md lists them."""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple, Self

from runtime.contracts.states import AgentStatus


class Section(StrEnum):
    """What a problem is about: the headings of docs/problems.md, in their order."""

    REQUESTS = "Requests"
    PERMISSIONS = "Authentication and permissions"
    FLOWS = "Flows"
    DECISIONS = "Decisions"
    ADMINISTRATION = "Administration"
    AUDIT = "Audit"


class _Entry(NamedTuple):
    """What is written about one code below; ProblemCode has the same as attributes."""

    section: Section
    code: str
    status: int
    heading: str
    meaning: str
    other_status: int | None = None
    is_retriable: bool = False


_request = partial(_Entry, Section.REQUESTS)
_access = partial(_Entry, Section.PERMISSIONS)
_flow = partial(_Entry, Section.FLOWS)
_decision = partial(_Entry, Section.DECISIONS)
_admin = partial(_Entry, Section.ADMINISTRATION)
_audit = partial(_Entry, Section.AUDIT)


class ProblemCode(StrEnum):
    """Why a call was refused.

    `status` is its usual HTTP status, `other_status` a second one that `meaning` explains; `heading` names it
    in a few words; `is_retriable` says that the same call may succeed later.
    """

    section: Section
    status: int
    heading: str
    meaning: str
    other_status: int | None
    is_retriable: bool

    BAD_REQUEST = _request("BAD_REQUEST", 400, "Request not readable", "The request could not be read.")
    INVALID_JSON = _request(
        "INVALID_JSON", 400, "Invalid JSON", "The body is not valid JSON (RFC 8259 and I-JSON)."
    )
    INVALID_REQUEST = _request(
        "INVALID_REQUEST",
        422,
        "Invalid fields",
        "Fields are missing, unknown or invalid; `violations` lists them. 400 for a form of a page.",
        other_status=400,
    )
    UNSUPPORTED_MEDIA_TYPE = _request(
        "UNSUPPORTED_MEDIA_TYPE", 415, "Unsupported media type", "The body is not `application/json`."
    )
    BODY_TOO_LARGE = _request("BODY_TOO_LARGE", 413, "Body too large", "The body is larger than the limit.")
    METHOD_NOT_ALLOWED = _request(
        "METHOD_NOT_ALLOWED", 405, "Method not allowed", "This URL does not support the method."
    )
    NOT_FOUND = _request(
        "NOT_FOUND", 404, "Not found", "Nothing exists at this URL or under this name, or you may not see it."
    )
    TIMEOUT = _request("TIMEOUT", 408, "Request timed out", "The request did not arrive in time.")
    INVALID_SCHEMA = _request(
        "INVALID_SCHEMA",
        422,
        "Message does not fit",
        "The envelope of a message, or its payload, is not of the form of its type; see `violations`.",
    )
    MESSAGE_ID_REUSED = _request(
        "MESSAGE_ID_REUSED",
        409,
        "Message id reused",
        "Another message was sent with this `message_id`, or it was erased since.",
    )
    MESSAGE_DEAD = _request(
        "MESSAGE_DEAD", 410, "Message is dead", "The message became a dead letter before it was taken."
    )
    RATE_LIMITED = _request(
        "RATE_LIMITED",
        429,
        "Too many messages",
        "The conversation has too many messages in a minute, or the mailbox of the recipient is full.",
        is_retriable=True,
    )
    IDEMPOTENCY_KEY_MISSING = _request(
        "IDEMPOTENCY_KEY_MISSING", 400, "Idempotency-Key missing", "The call needs an `Idempotency-Key`."
    )
    IDEMPOTENCY_KEY_INVALID = _request(
        "IDEMPOTENCY_KEY_INVALID", 400, "Idempotency-Key invalid", "It is not 1-255 visible ASCII characters."
    )
    IDEMPOTENCY_KEY_REUSED = _request(
        "IDEMPOTENCY_KEY_REUSED", 422, "Idempotency-Key reused", "It was already used with a different body."
    )
    TOO_MANY_WAITING = _request(
        "TOO_MANY_WAITING",
        429,
        "Too many requests waiting",
        "The line of requests is full. Nothing was done; retry after the seconds in `Retry-After`.",
        is_retriable=True,
    )
    BUSY = _request(
        "BUSY", 409, "Too many concurrent updates", "Others changed it meanwhile; retry.", is_retriable=True
    )
    INTERNAL_ERROR = _request(
        "INTERNAL_ERROR",
        500,
        "Internal error",
        "The runtime failed; retry with the same key.",
        is_retriable=True,
    )
    SIGNING_KEY_ENDED = _request(
        "SIGNING_KEY_ENDED",
        503,
        "The signing key has ended",
        "The server signs with a key that was replaced; it must be restarted with the one in use.",
    )
    TEMPORARILY_UNAVAILABLE = _request(
        "TEMPORARILY_UNAVAILABLE",
        503,
        "Temporarily unavailable",
        "The runtime is busy; retry with the same key.",
        is_retriable=True,
    )

    CALLBACK_NOT_FOUND = _request(
        "CALLBACK_NOT_FOUND", 404, "Callback not found", "No call has this callback address."
    )
    CALLBACK_CLOSED = _request(
        "CALLBACK_CLOSED", 410, "Callback is closed", "The call's result is known: nothing more is taken."
    )
    UNAUTHENTICATED = _access(
        "UNAUTHENTICATED", 401, "Not authenticated", "No valid key, session or token was sent."
    )
    FORBIDDEN = _access(
        "FORBIDDEN", 403, "Call not allowed", "This identity is not allowed to make this call."
    )
    UNAUTHORIZED = _access(
        "UNAUTHORIZED", 403, "Not granted", "The key, session or manifest does not grant it."
    )
    AGENT_PASSIVE = _access("AGENT_PASSIVE", 403, "Agent is passive", "The agent may only read.")
    AGENT_LOCKED = _access(
        "AGENT_LOCKED",
        403,
        "Agent is locked",
        "The agent waits for a partially executed flow to be compensated. 409 when opening a child flow.",
        other_status=409,
    )
    AGENT_SUSPENDED = _access(
        "AGENT_SUSPENDED",
        403,
        "Agent is suspended",
        "A person has suspended the agent. 409 when opening a child flow.",
        other_status=409,
    )
    AGENT_RETIRED = _access(
        "AGENT_RETIRED",
        403,
        "Agent is retired",
        "The agent has been retired. 409 for a key, a child flow or a manifest.",
        other_status=409,
    )
    CAPABILITY_NOT_FOUND = _access(
        "CAPABILITY_NOT_FOUND",
        404,
        "Capability not found",
        "No active policy kind has this name, or no agent that can be reached is or offers what is wanted.",
    )
    VERSION_UNSUPPORTED = _access(
        "VERSION_UNSUPPORTED",
        406,
        "Version not supported",
        "The version is not supported; `supported` says which are. 404 for a schema.",
        other_status=404,
    )

    SIGNATURE_INVALID = _access(
        "SIGNATURE_INVALID",
        403,
        "Signature not valid",
        "The body is not signed with the target's secret, or the signature is over five minutes old.",
    )
    FLOW_NOT_FOUND = _flow("FLOW_NOT_FOUND", 404, "Flow not found", "No flow of this agent has this DFID.")
    RULESET_NOT_FOUND = _flow(
        "RULESET_NOT_FOUND",
        404,
        "Ruleset not found",
        "No ruleset of this name, or `name@version`, is or was active, or it does not match the ledger.",
    )
    RULE_OUTPUT_NOT_FOUND = _flow(
        "RULE_OUTPUT_NOT_FOUND", 404, "Rule output not found", "The flow has no rule output of this id."
    )
    DECISION_NOT_FOUND = _flow(
        "DECISION_NOT_FOUND",
        404,
        "Decision package not found",
        "The flow has no decision package of this id.",
    )
    NOT_CONSULTED = _flow(
        "NOT_CONSULTED",
        409,
        "Nobody to consult",
        "No provider that may be asked offers the capability within the budgets, or all were asked before.",
    )
    CONSULTATION_ENDED = _flow(
        "CONSULTATION_ENDED",
        409,
        "Consultation has ended",
        "The consultation was answered before, or its deadline has passed: the answer is not taken.",
    )
    TOO_MUCH_ADVICE = _flow(
        "TOO_MUCH_ADVICE",
        429,
        "Too many evaluations",
        "The flow has used its share of rule outputs and decision packages; open a new flow.",
    )
    FLOW_NOT_OPEN = _flow(
        "FLOW_NOT_OPEN", 409, "Flow not open", "The flow has ended, waits for a person, or is being executed."
    )
    FLOW_ERASED = _flow(
        "FLOW_ERASED",
        410,
        "Words erased",
        "The words of the flow were erased, and with them the stored response to this call.",
    )
    FLOW_KEPT = _flow(
        "FLOW_KEPT",
        409,
        "Flow cannot be erased",
        "The flow has not ended, a call of it is in doubt, a legal hold keeps it, or work on it is open.",
    )
    EPOCH_ENDED = _flow(
        "EPOCH_ENDED",
        409,
        "Flow predates a restore",
        "A backup was restored since it was opened: find out what happened, then open another, or abort.",
    )
    RECOVERY = _flow(
        "RECOVERY",
        503,
        "Restored from a backup",
        "A backup was restored: until an admin ends recovery, only ABORT without a statement is accepted.",
        is_retriable=True,
    )
    NO_RECOVERY = _flow("NO_RECOVERY", 409, "Not in recovery", "The database is not in recovery (command).")
    RECOVERY_UNDER_WAY = _flow(
        "RECOVERY_UNDER_WAY",
        409,
        "Recovery is under way",
        "Live intents are still being put in doubt (command); retry in a few seconds.",
        is_retriable=True,
    )
    CONTEXT_REQUIRED = _flow(
        "CONTEXT_REQUIRED",
        422,
        "Context required",
        "The proposal names no context, or its policy kind asks for one that the agent has seen.",
    )
    ALREADY_CLAIMED = _flow(
        "ALREADY_CLAIMED", 409, "Already being executed", "Too late to cancel: a worker has the intent."
    )
    BUDGET_EXCEEDED = _flow(
        "BUDGET_EXCEEDED",
        429,
        "Budget exceeded",
        "The flow exceeded its compute budget, and is aborted; or a conversation has used up its messages.",
    )
    TOO_DEEP = _flow("TOO_DEEP", 409, "Too many levels", "The flow would be too many levels below the root.")
    TOO_MANY_CHILDREN = _flow(
        "TOO_MANY_CHILDREN", 409, "Too many child flows", "Too many flows are open under the parent or root."
    )
    TOO_MANY_STEPS = _flow(
        "TOO_MANY_STEPS", 429, "Too many steps", "The flow has the maximum number of reasoning steps."
    )
    NO_WORKFLOW = _flow(
        "NO_WORKFLOW",
        409,
        "No workflow",
        "The agent's active manifest names no workflow that can be followed.",
    )
    TOO_MANY_ARTIFACTS = _flow(
        "TOO_MANY_ARTIFACTS", 409, "Too many artifacts", "The agent has the maximum number of artifacts."
    )
    TOO_MANY_TASK_CHANGES = _flow(
        "TOO_MANY_TASK_CHANGES",
        409,
        "Too many task changes",
        "The context of the task has the maximum number of versions.",
    )
    TOO_MANY_TIMERS = _flow(
        "TOO_MANY_TIMERS", 409, "Too many timers", "The agent has the maximum number of timers."
    )
    MEMORY_FULL = _flow(
        "MEMORY_FULL", 409, "Memory is full", "The scope has no room for another key or quarantined value."
    )
    FACT_NOT_FOUND = _flow(
        "FACT_NOT_FOUND", 404, "Fact not found", "No fact has this path, or not this version."
    )
    FACT_NOT_AS_DECLARED = _flow(
        "FACT_NOT_AS_DECLARED",
        422,
        "Fact not as declared",
        "The value does not fit what the ontology declares of the fact, or comes from another source.",
    )
    ONTOLOGY_NOT_FOUND = _flow(
        "ONTOLOGY_NOT_FOUND", 404, "Ontology not found", "No ontology has this schema_version."
    )
    WORLD_VERSION_NOT_FOUND = _flow(
        "WORLD_VERSION_NOT_FOUND",
        404,
        "World version not found",
        "No version of the world has this number, or the write is not numbered yet.",
    )
    WORLD_VERSION_NOT_KEPT = _flow(
        "WORLD_VERSION_NOT_KEPT",
        410,
        "World version not kept",
        "Versions of facts that it may have held were deleted when their time was over.",
    )
    VERSION_MISMATCH = _flow(
        "VERSION_MISMATCH",
        412,
        "Newer version exists",
        "The fact has a newer version. 409 for memory.",
        other_status=409,
    )
    NOTHING_ASKED = _flow("NOTHING_ASKED", 409, "No question asked", "There is no question to answer.")
    ALREADY_ANSWERED = _flow(
        "ALREADY_ANSWERED", 409, "Already answered", "The question has another answer, and that is final."
    )
    QUESTION_CLOSED = _flow(
        "QUESTION_CLOSED", 409, "Question is closed", "The question takes no more answers."
    )

    ESCALATION_NOT_FOUND = _decision(
        "ESCALATION_NOT_FOUND", 404, "Escalation not found", "No escalation has this id."
    )
    ACTION_UNKNOWN = _decision(
        "ACTION_UNKNOWN", 400, "Action not available", "It is not an action of this family."
    )
    ALREADY_DECIDED = _decision(
        "ALREADY_DECIDED", 409, "Already decided", "The escalation is no longer open."
    )
    UNDO_OVER = _decision(
        "UNDO_OVER", 409, "Undo window has ended", "The decision can no longer be taken back."
    )
    DEADLINE_PASSED = _decision(
        "DEADLINE_PASSED", 409, "Deadline has passed", "The deadline has passed; the proposal was aborted."
    )
    TAMPERED = _decision(
        "TAMPERED",
        409,
        "Does not match the ledger",
        "The stored case, record or draft does not match the ledger; a case can only be aborted.",
    )
    EVIDENCE_CHANGED = _decision(
        "EVIDENCE_CHANGED", 409, "Evidence has changed", "The evidence has changed since it was shown."
    )
    VERSION_CHANGED = _decision(
        "VERSION_CHANGED", 409, "Escalation has changed", "The escalation has changed since it was shown."
    )
    IMPACT_CHANGED = _decision(
        "IMPACT_CHANGED", 409, "Impact has changed", "The impact has changed since it was shown."
    )
    ROLE_MISSING = _decision(
        "ROLE_MISSING", 403, "Role missing", "Another role is required; to decide, operator or senior."
    )
    SEPARATION_OF_DUTY = _decision(
        "SEPARATION_OF_DUTY",
        403,
        "Someone else must decide",
        "The person owns or recently owned the agent, or wrote or activated the active version.",
    )
    AUTHORITY_EXCEEDED = _decision(
        "AUTHORITY_EXCEEDED",
        403,
        "Above your limit",
        "The amount or the impact is above the limit of the person or of the role.",
    )
    GATE_CLOSED = _decision(
        "GATE_CLOSED",
        403,
        "Another group must approve",
        "The policy kind names a group whose members alone may let it run (`gate_id`).",
    )
    TWO_PEOPLE_NEEDED = _decision(
        "TWO_PEOPLE_NEEDED",
        403,
        "Two people are needed",
        "Two different people must decide this, and nobody else holds a deciding role.",
    )
    SECOND_PERSON_NEEDED = _decision(
        "SECOND_PERSON_NEEDED",
        409,
        "A second person must decide",
        "The person made the first of two decisions, or is linked to who made it by a recent invite.",
    )
    NO_FIRST_DECISION = _decision(
        "NO_FIRST_DECISION",
        409,
        "No first decision to withdraw",
        "No first decision awaits a second here, or another person made it.",
    )
    STEP_UP = _decision(
        "STEP_UP", 401, "Password confirmation required", "The password was confirmed too long ago."
    )
    NOT_LIFTABLE = _decision(
        "NOT_LIFTABLE", 409, "Cannot be overridden", "The gate found something that no person can override."
    )
    STEPS_DONE = _decision(
        "STEPS_DONE", 409, "A step has taken effect", "A step has taken effect, so it cannot be replaced."
    )
    RECEIPT_RECORDED = _decision(
        "RECEIPT_RECORDED",
        409,
        "The receipt is recorded",
        "The call took effect and has its receipt, so it is not made again: mark it done, or abort.",
    )
    EFFECT_CONTRADICTED = _decision(
        "EFFECT_CONTRADICTED",
        409,
        "Receipt contradicts the statement",
        "A receipt shows that the replaced call took effect: make a new statement about it.",
    )
    GATE_REFUSED = _decision(
        "GATE_REFUSED", 409, "Rejected by the gate", "The gate rejects the change; `violations` lists why."
    )
    IMPACT_RAISED = _decision(
        "IMPACT_RAISED", 409, "Impact is higher", "The changed proposal has a higher impact than was shown."
    )
    SILENCE_OVER = _decision(
        "SILENCE_OVER", 409, "Silence is over", "The agent called again, or is no longer monitored."
    )
    JUSTIFICATION_MISSING = _decision(
        "JUSTIFICATION_MISSING", 400, "Reason missing or too short", "A reason, or a longer one, is required."
    )
    TASK_NOT_FOUND = _decision("TASK_NOT_FOUND", 404, "Task not found", "No task has this id.")
    TASK_CLOSED = _decision(
        "TASK_CLOSED", 409, "Task is closed", "The task was answered, or its deadline has passed."
    )
    NOT_OF_GROUP = _decision(
        "NOT_OF_GROUP", 403, "Not in the group", "Only the people of the task's group can answer it."
    )
    ANSWER_INVALID = _decision(
        "ANSWER_INVALID", 400, "Answer does not fit", "The answer does not fit the step's `receipt_schema`."
    )
    STATEMENT_MISSING = _decision(
        "STATEMENT_MISSING",
        400,
        "Statement missing",
        "State whether the call in doubt took effect; to replace it, `effect` is `NOT_HAPPENED`.",
    )
    ALREADY_STATED = _decision(
        "ALREADY_STATED", 409, "Effect already known", "The effect is known, or the escalation is still open."
    )
    NOT_IN_DOUBT = _decision(
        "NOT_IN_DOUBT",
        409,
        "Call is not in doubt",
        "The effect of the call is known, or it is being retried.",
    )
    NO_STATUS_QUERY = _decision(
        "NO_STATUS_QUERY", 409, "Target cannot be asked", "The step has no `probe`, or its target is unknown."
    )
    ASKED_JUST_NOW = _decision(
        "ASKED_JUST_NOW",
        429,
        "Asked just now",
        "The target was asked about this call a few seconds ago, or is being asked.",
        is_retriable=True,
    )
    TARGET_HELD = _decision(
        "TARGET_HELD",
        409,
        "Target is not called now",
        "A stop is active, the database is in recovery, or the circuit of the target is open.",
    )
    CHECK_UNANSWERED = _decision(
        "CHECK_UNANSWERED", 400, "Question not answered", "Say what was checked, beside the reason."
    )
    PAUSE_DUE = _decision(
        "PAUSE_DUE", 409, "Pause due", "Ten overrides in a row: look at how they ended, then continue."
    )
    TYPE_AGAIN = _decision(
        "TYPE_AGAIN", 400, "Not typed again", "The amount or target was not typed again exactly as shown."
    )
    PARAMS_MISSING = _decision("PARAMS_MISSING", 400, "Parameters missing", "MODIFY has no parameters.")
    RECEIPT_MISSING = _decision(
        "RECEIPT_MISSING", 400, "Receipt missing", "MARK_DONE needs the receipt that was found."
    )
    RECEIPT_NOT_REDACTED = _decision(
        "RECEIPT_NOT_REDACTED",
        400,
        "Receipt must be redacted",
        "The receipt for MARK_DONE has what the policy kind never stores.",
    )
    CONDITION_UNREADABLE = _decision(
        "CONDITION_UNREADABLE", 400, "Invalid condition", "A condition is not a valid expression."
    )
    HASH_UNREADABLE = _decision(
        "HASH_UNREADABLE", 400, "Invalid evidence hash", "The field `evidence_hash` is not a hash."
    )
    VERSION_UNREADABLE = _decision(
        "VERSION_UNREADABLE", 400, "Invalid version", "The field `version` is not a whole number."
    )
    JSON_UNREADABLE = _decision(
        "JSON_UNREADABLE", 400, "Field is not JSON", "A field of the form is not a JSON object."
    )
    TEXT_UNREADABLE = _decision(
        "TEXT_UNREADABLE", 400, "Text has a NUL character", "A field of the form contains a NUL character."
    )
    TEXT_TOO_LONG = _decision("TEXT_TOO_LONG", 400, "Text is too long", "A field of the form is too long.")
    EFFECT_UNREADABLE = _decision(
        "EFFECT_UNREADABLE", 400, "Invalid effect", "The field `effect` is not one of the effects."
    )
    INSTRUCTION_UNKNOWN = _decision(
        "INSTRUCTION_UNKNOWN", 400, "Unknown instruction", "REDIRECT names no instruction of the workflow."
    )
    QUESTION_OPEN = _decision(
        "QUESTION_OPEN", 409, "Question already open", "The last question is neither answered nor closed."
    )
    QUESTIONS_SPENT = _decision(
        "QUESTIONS_SPENT", 409, "No questions left", "The maximum number of questions has been asked."
    )
    AGENT_SILENCED = _decision(
        "AGENT_SILENCED", 409, "Agent cannot answer", "The agent is suspended or retired, and cannot answer."
    )
    CLAIMED = _decision(
        "CLAIMED", 409, "Claimed by another operator", "Someone else has claimed the escalation."
    )
    CLAIMED_BY_ANOTHER = _decision(
        "CLAIMED_BY_ANOTHER", 409, "Confirmation required", "Someone else has claimed it: confirm to decide."
    )
    SELECTION_WRONG = _decision(
        "SELECTION_WRONG", 400, "Nothing usable is selected", "Select between one and a hundred escalations."
    )
    NOT_ALIKE = _decision(
        "NOT_ALIKE", 409, "Not alike", "Only alike proposals of low impact are overridden together."
    )
    SETTLE_ALONE = _decision(
        "SETTLE_ALONE",
        409,
        "Call in doubt",
        "The call may have taken effect and its target does not honour keys: settle it on its own page.",
    )
    TARGET_UNTESTED = _decision(
        "TARGET_UNTESTED", 409, "Target not tested", "Test the target: a good test is valid for a minute."
    )
    CLAIM_MOVED = _decision(
        "CLAIM_MOVED", 409, "Claim has changed", "Someone else holds the claim than the page showed."
    )
    NOT_CLAIMED = _decision(
        "NOT_CLAIMED", 409, "Not claimed by you", "Only who holds a claim can pass it on."
    )
    RECEIVER_CANNOT_DECIDE = _decision(
        "RECEIVER_CANNOT_DECIDE",
        422,
        "Receiver cannot decide",
        "The person named cannot decide this escalation.",
    )
    NOTE_EMPTY = _decision("NOTE_EMPTY", 422, "Note is empty", "A note needs text.")
    NOTE_TOO_LONG = _decision(
        "NOTE_TOO_LONG", 422, "Note too long", "A note has at most 2,000 characters, none of them NUL."
    )
    FEEDBACK_UNSOUND = _decision(
        "FEEDBACK_UNSOUND",
        422,
        "Feedback is incomplete",
        "Feedback needs an assessment from the list, and a reason unless it is Right.",
    )
    PRECEDENT_MOVED = _decision(
        "PRECEDENT_MOVED", 409, "Cases have changed", "The precedent is no longer the one that was shown."
    )
    FEEDBACK_SENT_BEFORE = _decision(
        "FEEDBACK_SENT_BEFORE",
        409,
        "Form was sent before",
        "The same form was sent before with other feedback; the first is kept.",
    )

    REASON_MISSING = _admin("REASON_MISSING", 422, "Reason missing", "A reason is required.")
    AGENT_EXISTS = _admin("AGENT_EXISTS", 409, "Agent already exists", "The id is taken.")
    AGENT_MOVED = _admin(
        "AGENT_MOVED", 409, "Agent profile has changed", "Someone else updated the agent's profile meanwhile."
    )
    OWNER_CHANGE_OPEN = _admin(
        "OWNER_CHANGE_OPEN", 409, "Change of owner pending", "A change of owner waits for another admin."
    )
    OWNER_CHANGE_CLOSED = _admin(
        "OWNER_CHANGE_CLOSED", 409, "Change of owner closed", "It was approved or dropped meanwhile."
    )
    GROUP_OWNS_AGENTS = _admin(
        "GROUP_OWNS_AGENTS", 409, "Group owns agents", "It owns, or will own, agents: no one can be removed."
    )
    NAME_TAKEN = _admin(
        "NAME_TAKEN",
        409,
        "Name is taken",
        "A user, role, group, notification route or receiver has this name.",
    )
    TOO_MANY_ROUTES = _admin(
        "TOO_MANY_ROUTES", 409, "Too many routes", "There is the maximum number of notification routes."
    )
    ROUTE_OFF = _admin("ROUTE_OFF", 409, "Route is off", "A switched-off route gets no test notice.")
    ROLE_BY_SHELL = _admin(
        "ROLE_BY_SHELL", 403, "Group is a role", "The group is a role: roles are changed on the user's page."
    )
    STATUS_MOVED = _admin(
        "STATUS_MOVED", 409, "Status has changed", "The status has changed since it was shown."
    )
    STATUS_NOT_ALLOWED = _admin(
        "STATUS_NOT_ALLOWED", 409, "Status change not allowed", "This status cannot follow the current one."
    )
    AUTONOMY_MOVED = _admin(
        "AUTONOMY_MOVED", 409, "Level has changed", "The level of autonomy has changed since it was shown."
    )
    AUTONOMY_NOT_RAISED = _admin(
        "AUTONOMY_NOT_RAISED",
        409,
        "Not a higher level",
        "A person only raises a level of autonomy, and of an agent that is not retired.",
    )
    LABELS_MOVED = _admin(
        "LABELS_MOVED", 409, "Labels have changed", "The agent's labels have changed since they were shown."
    )
    STATUS_UNKNOWN = _admin("STATUS_UNKNOWN", 422, "Unknown status", "It is not a status.")
    ID_NOT_TYPED = _admin("ID_NOT_TYPED", 422, "Id not typed", "The id was not typed to confirm.")
    NO_MANIFEST = _admin(
        "NO_MANIFEST", 409, "No active manifest", "The agent has no active manifest, so no bucket."
    )
    MANIFEST_UNSOUND = _admin(
        "MANIFEST_UNSOUND",
        422,
        "Manifest is invalid",
        "The manifest draft is invalid; `violations` lists why. 409 when activating it.",
        other_status=409,
    )
    MANIFEST_MOVED = _admin(
        "MANIFEST_MOVED", 409, "Another manifest is active", "Another one was activated since it was shown."
    )
    MANIFEST_OVERTAKEN = _admin(
        "MANIFEST_OVERTAKEN", 409, "Later manifest is active", "A later one was activated: draft from it."
    )
    MANIFEST_ACTIVE = _admin(
        "MANIFEST_ACTIVE", 409, "Manifest already active", "The version is already active."
    )
    MANIFEST_SUPERSEDED = _admin(
        "MANIFEST_SUPERSEDED", 409, "Manifest was superseded", "It was active before: draft it as a new one."
    )
    MANIFEST_DISCARDED = _admin(
        "MANIFEST_DISCARDED", 409, "Manifest was discarded", "The draft was discarded."
    )
    MANIFEST_NOT_A_DRAFT = _admin(
        "MANIFEST_NOT_A_DRAFT", 409, "Not a draft", "Only a draft of a manifest can be discarded."
    )
    KIND_UNSOUND = _admin(
        "KIND_UNSOUND",
        422,
        "Policy kind is invalid",
        "The kind draft is invalid; `violations` lists why. 409 when activating it.",
        other_status=409,
    )
    KIND_MOVED = _admin(
        "KIND_MOVED", 409, "Another version is active", "Another one was activated since it was shown."
    )
    KIND_ACTIVE = _admin("KIND_ACTIVE", 409, "Policy kind already active", "The version is already active.")
    KIND_DISCARDED = _admin("KIND_DISCARDED", 409, "Policy kind was discarded", "The draft was discarded.")
    TOOL_MOVED = _admin(
        "TOOL_MOVED", 409, "Tool changed", "The server describes the tool otherwise than was shown, or not."
    )
    TOOL_PINNED = _admin("TOOL_PINNED", 409, "Tool is pinned", "The tool is pinned as it is described.")
    KIND_NOT_A_DRAFT = _admin(
        "KIND_NOT_A_DRAFT", 409, "Not a draft", "Only a draft of a policy kind can be discarded."
    )
    RULESET_UNSOUND = _admin(
        "RULESET_UNSOUND",
        422,
        "Ruleset is invalid",
        "The ruleset draft is invalid; `violations` lists why. 409 when activating it.",
        other_status=409,
    )
    RULESET_MOVED = _admin(
        "RULESET_MOVED", 409, "Another version is active", "Another one was activated since it was shown."
    )
    RULESET_ACTIVE = _admin("RULESET_ACTIVE", 409, "Ruleset already active", "The version is already active.")
    RULESET_DISCARDED = _admin("RULESET_DISCARDED", 409, "Ruleset was discarded", "The draft was discarded.")
    RULESET_NOT_A_DRAFT = _admin(
        "RULESET_NOT_A_DRAFT", 409, "Not a draft", "Only a draft of a ruleset can be discarded."
    )
    ONTOLOGY_UNSOUND = _admin(
        "ONTOLOGY_UNSOUND", 422, "Ontology is invalid", "The ontology is invalid; `violations` lists why."
    )
    ONTOLOGY_MOVED = _admin(
        "ONTOLOGY_MOVED", 409, "Another version is active", "Another one was activated since it was shown."
    )
    ONTOLOGY_ACTIVE = _admin(
        "ONTOLOGY_ACTIVE", 409, "Ontology already active", "The version is already active."
    )
    ONTOLOGY_DISCARDED = _admin(
        "ONTOLOGY_DISCARDED", 409, "Ontology was discarded", "The draft was discarded."
    )
    ONTOLOGY_NOT_A_DRAFT = _admin(
        "ONTOLOGY_NOT_A_DRAFT", 409, "Not a draft", "Only a draft of the ontology can be discarded."
    )
    CALIBRATION_OUTDATED = _admin(
        "CALIBRATION_OUTDATED",
        409,
        "Calibration map is outdated",
        "The kind or the model profile is another one than the map was made for.",
    )
    CALIBRATION_MOVED = _admin(
        "CALIBRATION_MOVED", 409, "Another map is active", "Another one was activated since it was shown."
    )
    CALIBRATION_NOT_A_DRAFT = _admin(
        "CALIBRATION_NOT_A_DRAFT", 409, "Not a draft", "Only a draft can be activated or discarded, once."
    )
    CALIBRATION_NOT_POSSIBLE = _admin(
        "CALIBRATION_NOT_POSSIBLE",
        409,
        "No map can be made",
        "The kind is not active, the agent has no manifest, or nothing new can be said of thirty proposals.",
    )
    CAPACITY_IN_USE = _admin(
        "CAPACITY_IN_USE", 409, "Capacity is in use", "The capacity is below what is in use."
    )
    INCIDENT_NOT_IN_THAT_STATE = _admin(
        "INCIDENT_NOT_IN_THAT_STATE",
        409,
        "Incident is in another state",
        "The incident's state does not allow it; a closed one only takes notes.",
    )
    HOLD_EXISTS = _admin(
        "HOLD_EXISTS", 409, "Hold exists", "A live legal hold has the same name and keeps the same."
    )
    HOLD_RELEASED = _admin(
        "HOLD_RELEASED", 409, "Hold was released", "The legal hold was released already; place another."
    )
    PAYLOAD_KEY_MOVED = _admin(
        "PAYLOAD_KEY_MOVED",
        409,
        "Payload key has changed",
        "Since the page was shown, another key was taken into use, or other payloads came under this one.",
    )
    PAYLOAD_KEY_UNUSABLE = _admin(
        "PAYLOAD_KEY_UNUSABLE",
        409,
        "Payload key cannot be used",
        "This process has no `DIR_PAYLOAD_KEY`, or another one than the key of the class is encrypted with.",
    )
    POST_MORTEM_REQUIRED = _admin(
        "POST_MORTEM_REQUIRED",
        409,
        "Post-mortem required",
        "An incident of SEV1 or SEV2 is closed by its lead, who signs off a complete post-mortem.",
    )
    POST_MORTEM_CHANGED = _admin(
        "POST_MORTEM_CHANGED",
        409,
        "Post-mortem changed",
        "Somebody else has saved a version since the form was opened.",
    )
    LINK_NOT_FOUND = _admin(
        "LINK_NOT_FOUND", 404, "Nothing to link", "What the incident should link does not exist."
    )
    INCIDENT_RULE_NOT_IN_THAT_STATE = _admin(
        "INCIDENT_RULE_NOT_IN_THAT_STATE",
        409,
        "Incident rule not in state",
        "Only a drafted rule, or one that is off, is activated; only one that is not off is switched off.",
    )
    RECEIVER_STATE = _admin(
        "RECEIVER_STATE",
        409,
        "Receiver not in state",
        "Only an active receiver is paused, only a paused one resumed.",
    )
    RECEIVER_MOVED = _admin(
        "RECEIVER_MOVED",
        409,
        "Position has changed",
        "The receiver's position has changed since it was shown.",
    )
    TOO_MANY_RECEIVERS = _admin(
        "TOO_MANY_RECEIVERS", 409, "Too many receivers", "There is the maximum number of receivers of events."
    )
    REVIEW_CLOSED = _admin("REVIEW_CLOSED", 409, "Review is closed", "The review is already closed.")
    USER_EXISTS = _admin("USER_EXISTS", 409, "User already exists", "A user has this name.")
    USER_MOVED = _admin(
        "USER_MOVED", 409, "User has changed", "Someone else changed the user's roles or state meanwhile."
    )
    INVITE_INVALID = _admin(
        "INVITE_INVALID", 410, "Invite link no longer works", "It was used or replaced, or it has expired."
    )

    NOT_SEALED = _audit(
        "NOT_SEALED",
        409,
        "Not sealed yet",
        "No checkpoint covers the entry yet; one will within seconds.",
        is_retriable=True,
    )
    REPLAY_RUN_NOT_IN_THAT_STATE = _audit(
        "REPLAY_RUN_NOT_IN_THAT_STATE",
        409,
        "Replay run not in state",
        "One run replays flows at a time, and only one that is running can be cancelled.",
    )
    TREE_SIZE_UNKNOWN = _audit(
        "TREE_SIZE_UNKNOWN",
        400,
        "No such tree size",
        "The tree over the entries has no such size, or sizes are in the wrong order.",
    )

    def __new__(
        cls,
        section: Section,
        code: str,
        status: int,
        heading: str,
        meaning: str,
        other_status: int | None,
        is_retriable: bool,
    ) -> Self:
        """Make the code itself the value of the member, and the rest of its entry attributes."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.section, member.status, member.heading, member.meaning = section, status, heading, meaning
        member.other_status, member.is_retriable = other_status, is_retriable
        return member


# A caller that is not ACTIVE, by its status.
AGENT_STATUS_CODES: Mapping[str, ProblemCode] = {
    AgentStatus.PASSIVE: ProblemCode.AGENT_PASSIVE,
    AgentStatus.LOCKED: ProblemCode.AGENT_LOCKED,
    AgentStatus.SUSPENDED: ProblemCode.AGENT_SUSPENDED,
    AgentStatus.RETIRED: ProblemCode.AGENT_RETIRED,
}
