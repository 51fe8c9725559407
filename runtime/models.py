"""The models of every domain, so that Django finds them under the app label `runtime`."""

from runtime.contexts.models import AgentEvent, Inbox, Snapshot, Timer
from runtime.core.models import Answer
from runtime.epochs.models import Boot, Epoch
from runtime.execution.models import Circuit
from runtime.flows.models import Attempt, Feedback, Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.guards.models import Guard, GuardRun, Review
from runtime.incidents.models import (
    Incident,
    IncidentAction,
    IncidentLink,
    IncidentNote,
    IncidentRuleRow,
    PostMortem,
    RuleCursor,
    RuleSighting,
)
from runtime.maintenance.models import (
    HoldLock,
    LegalHold,
    ReplayFinding,
    ReplayRun,
    RetentionRound,
    WatchRound,
)
from runtime.outward.models import Receiver
from runtime.registry.models import (
    Agent,
    AuthorityLimitRow,
    Bundle,
    FailedSignin,
    HiddenTour,
    Key,
    Manifest,
    Membership,
    OwnerChange,
    Pack,
    PolicyKind,
    Session,
    Stop,
    Target,
)
from runtime.resources.models import ComputeBudget, Reservation, Resource, UsageReport
from runtime.state.models import Artifact, Fact, FactVersion, MemoryItem

__all__ = [
    "Agent",
    "AgentEvent",
    "Answer",
    "Artifact",
    "Attempt",
    "AuthorityLimitRow",
    "Boot",
    "Bundle",
    "Circuit",
    "ComputeBudget",
    "Epoch",
    "Fact",
    "FactVersion",
    "FailedSignin",
    "Feedback",
    "Flow",
    "Guard",
    "GuardRun",
    "HiddenTour",
    "HoldLock",
    "Inbox",
    "Incident",
    "IncidentAction",
    "IncidentLink",
    "IncidentNote",
    "IncidentRuleRow",
    "Intent",
    "Key",
    "LegalHold",
    "Manifest",
    "Membership",
    "MemoryItem",
    "Outcome",
    "OwnerChange",
    "Pack",
    "PolicyKind",
    "PostMortem",
    "Proposal",
    "Receiver",
    "ReplayFinding",
    "ReplayRun",
    "Reservation",
    "Resource",
    "RetentionRound",
    "Review",
    "RuleCursor",
    "RuleSighting",
    "Session",
    "Snapshot",
    "StepReceipt",
    "Stop",
    "Target",
    "Timer",
    "UsageReport",
    "Verdict",
    "WatchRound",
]
