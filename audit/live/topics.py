"""Topics: what a page can follow instead of every stream. A hint for one comes beside that of the stream.

Most entries are agents at work, many a second, and change no list that waits for people. A page that
followed every stream would ask for its lists again with each of them.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from audit.events import CONVERSATION_KINDS, INCIDENT_KINDS, Kind


class Topic(StrEnum):
    """The name under which its hints come; no stream has such a name."""

    ESCALATIONS = "escalations"
    REVIEWS = "reviews"
    INCIDENTS = "incidents"
    REPLAYS = "replays"
    CONVERSATIONS = "conversations"


_OF_REPLAYS: Final = frozenset({Kind.REPLAY_RUN_STARTED, Kind.REPLAY_RUN_ENDED})
# Kinds that change no escalation by themselves, and nothing that the queue shows of one. What is not named
# here counts as a change: a kind that is forgotten costs a request, not news.
_OF_WORK: Final = frozenset(
    {
        Kind.FLOW_OPENED,
        Kind.FLOW_MOVED,
        Kind.CHILD_OPENED,
        Kind.CONTEXT_COMPILED,
        Kind.STEP_REPORTED,
        Kind.STEP_TAKEN,
        Kind.STEP_REFUSED,
        Kind.FLOW_CONTINUED,
        Kind.USAGE_REPORTED,
        Kind.PROPOSAL_SUBMITTED,
        Kind.VERDICT_GIVEN,
        Kind.INTENT_CREATED,
        Kind.INVARIANTS_CHECKED,
        Kind.ATTEMPT_STARTED,
        Kind.ATTEMPT_FINISHED,
        Kind.SAGA_ADVANCED,
        Kind.ROUTE_TAKEN,
        Kind.OUTCOME_RECORDED,
        Kind.OUTCOME_NAMED,
        Kind.RESOURCE_RESERVED,
        Kind.RESOURCE_PINNED,
        Kind.RESOURCE_COMMITTED,
        Kind.RESOURCE_RELEASED,
        Kind.FACT_WRITTEN,
        Kind.FACT_NOT_WRITTEN,
        Kind.FACTS_PRUNED,
        Kind.MEMORY_READ,
        Kind.MEMORY_WRITTEN,
        Kind.MEMORY_REFUSED,
        Kind.MEMORY_RELEASED,
        Kind.MEMORY_DISCARDED,
        Kind.ARTIFACT_REGISTERED,
        Kind.BUDGET_SPENT,
        Kind.BUDGET_REFILLED,
        Kind.SESSION_OPENED,
        Kind.RECORD_EMITTED,
        Kind.RECORD_SCORED,
        Kind.PAYLOAD_KEY_ROTATED,
        Kind.PAYLOAD_KEY_REENCRYPTION_REQUESTED,
        Kind.PAYLOAD_KEY_REWRAPPED,
        Kind.PAYLOAD_KEY_DESTROYED,
        Kind.HOLD_PLACED,
        Kind.HOLD_RELEASED,
        Kind.REQUEST_REFUSED,
        Kind.WHATIF_ANSWERED,
        Kind.USER_SIGNED_IN,
        Kind.USER_SIGNED_OUT,
        Kind.USER_CONFIRMATION_FAILED,
        Kind.SIGNIN_FAILED,
        Kind.GUARD_FAILED,
        Kind.REVIEW_FLAGGED,
        Kind.REVIEW_REQUESTED,
        Kind.REVIEW_ROUTED,
        Kind.REVIEW_CLOSED,
        Kind.RECEIVER_ADDED,
        Kind.RECEIVER_CHANGED,
        Kind.RECEIVER_PAUSED,
        Kind.RECEIVER_RESUMED,
        Kind.RECEIVER_MOVED,
        Kind.RECEIVER_TESTED,
        Kind.RULESET_REGISTERED,
        Kind.RULESET_ACTIVATED,
        Kind.RULESET_DISCARDED,
        Kind.RULES_EVALUATED,
        Kind.DECISION_RECOMMENDED,
        Kind.CALIBRATION_DRAFTED,
        Kind.CALIBRATION_ACTIVATED,
        Kind.CALIBRATION_DISCARDED,
        Kind.CALIBRATION_RETIRED,
        Kind.TOOL_FOUND,
        Kind.TOOL_PINNED,
        Kind.TOOL_QUARANTINED,
        Kind.TOOL_SERVER_SWITCHED,
    }
)
_OF_REVIEWS: Final = frozenset(
    {
        Kind.REVIEW_FLAGGED,
        Kind.REVIEW_REQUESTED,
        Kind.REVIEW_ROUTED,
        Kind.REVIEW_CLOSED,
        Kind.GUARD_CONFIGURED,
        Kind.GUARD_SWITCHED,
    }
)


def of_kinds(kinds: Iterable[Kind]) -> frozenset[Topic]:
    """The topics that entries of these kinds concern."""
    written = frozenset(kinds)
    about = {
        Topic.ESCALATIONS: not written <= _OF_WORK | INCIDENT_KINDS | CONVERSATION_KINDS | _OF_REPLAYS,
        Topic.REVIEWS: bool(written & _OF_REVIEWS),
        Topic.INCIDENTS: bool(written & INCIDENT_KINDS),
        Topic.REPLAYS: bool(written & _OF_REPLAYS),
        Topic.CONVERSATIONS: bool(written & CONVERSATION_KINDS),
    }
    return frozenset(topic for topic, is_concerned in about.items() if is_concerned)
