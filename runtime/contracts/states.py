"""The closed sets of states. Values are stored and sent: they are permanent."""

from enum import StrEnum
from typing import Final

# What an agent still gets of feedback whose words were erased: it is read as JSON, so it stays JSON.
ERASED_FEEDBACK: Final = b'{"erased":true}'


class Choice(StrEnum):
    """A string enum that can give Django its choices without importing Django."""

    @classmethod
    def pairs(cls) -> list[tuple[str, str]]:
        """Pairs of stored value and label."""
        return [(member.value, member.value) for member in cls]

    @classmethod
    def values(cls) -> list[str]:
        """The stored values, in order."""
        return [member.value for member in cls]


class FlowState(Choice):
    """The lifecycle of a flow (DIR paper, 4.3 and 9.1)."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    VALIDATING = "VALIDATING"
    ACCEPTED = "ACCEPTED"
    EXECUTING = "EXECUTING"
    PARTIAL_SUCCESS_DIRTY = "PARTIAL_SUCCESS_DIRTY"
    COMPENSATING = "COMPENSATING"
    ESCALATED = "ESCALATED"
    CLOSED = "CLOSED"
    ABORTED = "ABORTED"


OPEN_TO_PROPOSALS = (FlowState.CREATED.value, FlowState.ACTIVE.value)
ENDED = (FlowState.CLOSED.value, FlowState.ABORTED.value)


class AgentStatus(Choice):
    """ACTIVE works; PASSIVE may read only; the others may not propose."""

    ACTIVE = "ACTIVE"
    PASSIVE = "PASSIVE"
    LOCKED = "LOCKED"
    SUSPENDED = "SUSPENDED"
    RETIRED = "RETIRED"


class AutonomyLevel(Choice):
    """How much an agent may do by itself, the most first.

    SUPERVISED: a person decides on all that has an effect. READ_ONLY: nothing that has an effect is accepted.
    """

    AUTONOMOUS = "AUTONOMOUS"
    SUPERVISED = "SUPERVISED"
    READ_ONLY = "READ_ONLY"

    @property
    def rank(self) -> int:
        """Its place in the order: the higher, the less it allows."""
        return list(AutonomyLevel).index(self)


class ManifestState(Choice):
    """A version of a manifest is drafted, comes into force once, and is superseded; or it is discarded."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    SUPERSEDED = "SUPERSEDED"
    DISCARDED = "DISCARDED"


class CalibrationState(Choice):
    """A calibration map is drafted, activated, superseded or retired for good; or it is discarded."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    SUPERSEDED = "SUPERSEDED"
    RETIRED = "RETIRED"
    DISCARDED = "DISCARDED"


class KindState(Choice):
    """A version of a policy kind is drafted, activated, superseded, maybe activated again; or discarded."""

    DRAFT = "DRAFT"
    ACTIVE = "ACTIVE"
    SUPERSEDED = "SUPERSEDED"
    DISCARDED = "DISCARDED"


class AgentRole(Choice):
    """What an agent is for (Responsibility-Oriented Agents)."""

    STRATEGIST = "STRATEGIST"
    EXECUTOR = "EXECUTOR"
    MONITOR = "MONITOR"


class Decision(Choice):
    """The three verdicts of the gate."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    ESCALATE = "ESCALATE"


class Impact(Choice):
    """Impact categories (DIR paper, 9.4), the lightest first. CRITICAL needs two different people."""

    LOW_IMPACT = "LOW_IMPACT"
    HIGH_IMPACT = "HIGH_IMPACT"
    CRITICAL = "CRITICAL"

    @property
    def rank(self) -> int:
        """Its place in the order, for sorting and for comparing two."""
        return list(Impact).index(self)


class IntentState(Choice):
    """An intent waits, is claimed by one worker or AWAITING an answer, and ends once.

    A person answers a task, or a target reports by callback what it was asked to do.
    """

    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    AWAITING = "AWAITING"
    IN_DOUBT = "IN_DOUBT"
    WITH_PERSON = "WITH_PERSON"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


LIVE_INTENTS = (
    IntentState.PENDING.value,
    IntentState.CLAIMED.value,
    IntentState.AWAITING.value,
    IntentState.IN_DOUBT.value,
    IntentState.WITH_PERSON.value,
)


class Direction(Choice):
    """FORWARD does a step; COMPENSATE undoes one that was done (DIR paper, 7.3)."""

    FORWARD = "FORWARD"
    COMPENSATE = "COMPENSATE"


class Purpose(Choice):
    """What an attempt is for: CALL has the effect, PROBE only asks whether an earlier call had it."""

    CALL = "CALL"
    PROBE = "PROBE"


class QueryResult(Choice):
    """What a person's question to a target came to: FOUND and NOT_FOUND as a probe is read, by its rules."""

    FOUND = "FOUND"
    NOT_FOUND = "NOT_FOUND"
    UNKNOWN = "UNKNOWN"
    NOT_SENT = "NOT_SENT"


class StepState(Choice):
    """Where a step of an intent stands; NOT_DONE has no effect and will have none."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    UNDOING = "UNDOING"
    UNDONE = "UNDONE"
    NOT_DONE = "NOT_DONE"


class AttemptState(Choice):
    """STARTED is written before the call; HELD means that the call was not made.

    AWAITING has no lease: a person carries the step out, or a target that has taken it on reports later.
    """

    STARTED = "STARTED"
    AWAITING = "AWAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    HELD = "HELD"


# An attempt that has not come to its end.
OPEN_ATTEMPTS = (AttemptState.STARTED.value, AttemptState.AWAITING.value)


class TaskState(Choice):
    """A task for people is open until one of them answers, or its deadline passes."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    OVERDUE = "OVERDUE"


class CallbackState(Choice):
    """A callback is OPEN until the target reports the result; OVERDUE, it is noted and changes nothing.

    CLOSED: the call itself came to an end, so there is nothing to report.
    """

    OPEN = "OPEN"
    REPORTED = "REPORTED"
    OVERDUE = "OVERDUE"
    CLOSED = "CLOSED"


class Effect(Choice):
    """Whether a call has had its effect, as far as anybody knows."""

    HAPPENED = "HAPPENED"
    NOT_HAPPENED = "NOT_HAPPENED"
    UNKNOWN = "UNKNOWN"


# What settles a call that is in doubt.
KNOWN_EFFECTS = (Effect.HAPPENED.value, Effect.NOT_HAPPENED.value)


class CircuitState(Choice):
    """The circuit of a target: closed lets calls through, open lets none, half open lets one try."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class ToolState(Choice):
    """A tool of an MCP server: seen and not looked at, or pinned by an admin as it was described.

    CHANGED and VANISHED are quarantined: its server describes it otherwise now, or no longer lists it.
    """

    FOUND = "FOUND"
    PINNED = "PINNED"
    CHANGED = "CHANGED"
    VANISHED = "VANISHED"


class OutcomeStatus(Choice):
    """How an intent ended for the world; COMPENSATED: what its first steps did was undone."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    COMPENSATED = "COMPENSATED"


class ReservationState(Choice):
    """A reservation is held with a lease, pinned by a worker's claim, and ends once."""

    HELD = "HELD"
    PINNED = "PINNED"
    COMMITTED = "COMMITTED"
    RELEASED = "RELEASED"


STANDING = (ReservationState.HELD.value, ReservationState.PINNED.value)


class FeedbackType(Choice):
    """Events an agent reads by its flow's feedback."""

    VALIDATION_FEEDBACK = "VALIDATION_FEEDBACK"
    ESCALATION_REQUIRED = "ESCALATION_REQUIRED"
    ESCALATION_RESOLVED = "ESCALATION_RESOLVED"
    INFORMATION_REQUESTED = "INFORMATION_REQUESTED"
    EXECUTION_OUTCOME = "EXECUTION_OUTCOME"
    RE_ENGAGEMENT_ADVICE = "RE_ENGAGEMENT_ADVICE"
    CLARIFICATION_REQUEST = "CLARIFICATION_REQUEST"
    FLOW_ABORTED = "FLOW_ABORTED"
    FLOW_CLOSED = "FLOW_CLOSED"


class AgentEventType(Choice):
    """Events an agent reads about itself (`GET /events`)."""

    FACT_CHANGED = "FACT_CHANGED"
    BUDGET_CHANGED = "BUDGET_CHANGED"
    STATUS_CHANGED = "STATUS_CHANGED"
    AUTONOMY_CHANGED = "AUTONOMY_CHANGED"
    MANIFEST_ACTIVATED = "MANIFEST_ACTIVATED"
    STOPPED = "STOPPED"
    RESUMED = "RESUMED"
    CHILD_ENDED = "CHILD_ENDED"
    RE_ENGAGEMENT_ADVICE = "RE_ENGAGEMENT_ADVICE"
    TIMER = "TIMER"


class StepType(Choice):
    """What an agent says that it did while it reasoned."""

    PROMPT = "prompt"
    RETRIEVAL = "retrieval"
    REASONING = "reasoning"
    INSTRUCTION = "instruction"
    SELF_CHECK = "self_check"
