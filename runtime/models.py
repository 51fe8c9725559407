"""The models of every domain, so that Django finds them under the app label `runtime`."""

from runtime.advice.models import Consultation, DecisionPackageRow, RuleOutput
from runtime.contexts.models import AgentEvent, Inbox, Snapshot, Timer
from runtime.conversations.models import Capability, Conversation, Mailbox, Message
from runtime.core.models import Answer
from runtime.epochs.models import Boot, Epoch
from runtime.execution.models import Circuit, HumanTask
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
    FactRound,
    HoldLock,
    LegalHold,
    PayloadRound,
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
    Ruleset,
    Session,
    Stop,
    Target,
    Workflow,
)
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.models.ontologies import Ontology
from runtime.registry.models.tools import ToolServer, UpstreamTool
from runtime.resources.models import ComputeBudget, Reservation, Resource, UsageReport
from runtime.state.models import Artifact, Fact, FactVersion, MemoryItem, WorldVersion
from runtime.workflows.models import StepCheck, WorkflowPosition

__all__ = [
    "Agent",
    "AgentEvent",
    "Answer",
    "Artifact",
    "Attempt",
    "AuthorityLimitRow",
    "Boot",
    "Bundle",
    "CalibrationMap",
    "Capability",
    "Circuit",
    "ComputeBudget",
    "Consultation",
    "Conversation",
    "DecisionPackageRow",
    "Epoch",
    "Fact",
    "FactRound",
    "FactVersion",
    "FailedSignin",
    "Feedback",
    "Flow",
    "Guard",
    "GuardRun",
    "HiddenTour",
    "HoldLock",
    "HumanTask",
    "Inbox",
    "Incident",
    "IncidentAction",
    "IncidentLink",
    "IncidentNote",
    "IncidentRuleRow",
    "Intent",
    "Key",
    "LegalHold",
    "Mailbox",
    "Manifest",
    "Membership",
    "MemoryItem",
    "Message",
    "Ontology",
    "Outcome",
    "OwnerChange",
    "Pack",
    "PayloadRound",
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
    "RuleOutput",
    "RuleSighting",
    "Ruleset",
    "Session",
    "Snapshot",
    "StepCheck",
    "StepReceipt",
    "Stop",
    "Target",
    "Timer",
    "ToolServer",
    "UpstreamTool",
    "UsageReport",
    "Verdict",
    "WatchRound",
    "Workflow",
    "WorkflowPosition",
    "WorldVersion",
]
