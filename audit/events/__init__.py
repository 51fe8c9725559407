"""What can be recorded: one kind, one frozen payload class. Fields are only ever added, with a default.

Texts that may be personal are never in a payload: they stay behind a commitment
(`audit.ledger.commit_payload`).
Times are aware; ids may be given as UUID and are written as text.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from audit.events.base import Event, Kind
from audit.events.escalations import (
    EscalationClaimed,
    EscalationDecided,
    EscalationExpired,
    EscalationOpened,
    EscalationRefused,
    EscalationReleased,
    EscalationRevised,
    EscalationWithdrawn,
    InformationAnswered,
    InformationClosed,
    InformationRequested,
)
from audit.events.execution import (
    AttemptFinished,
    AttemptReportedLate,
    AttemptStarted,
    IntentBlocked,
    IntentCancelled,
    IntentCreated,
    IntentHeld,
    IntentInDoubt,
    IntentResumed,
    IntentSuperseded,
    OutcomeRecorded,
    ResourceCommitted,
    ResourceConfigured,
    ResourcePinned,
    ResourceReleased,
    ResourceReserved,
)
from audit.events.flows import (
    ChildOpened,
    ContextCompiled,
    FlowMoved,
    FlowOpened,
    ProposalSubmitted,
    Reason,
    StepReported,
    UsageReported,
    VerdictGiven,
)
from audit.events.guards import GuardConfigured, GuardFailed, GuardSwitched, ReviewClosed, ReviewFlagged
from audit.events.registry import (
    AgentEdited,
    AgentRegistered,
    AgentResumed,
    AgentStatusChanged,
    AgentStopped,
    ArtifactRegistered,
    BudgetRefilled,
    BudgetSpent,
    FactWritten,
    KeyIssued,
    KeyRevoked,
    KindActivated,
    KindDiscarded,
    KindRegistered,
    ManifestActivated,
    ManifestDiscarded,
    ManifestRegistered,
    MemoryDiscarded,
    MemoryReleased,
    MemoryWritten,
    PackLoaded,
    PayloadErased,
    RequestRefused,
    SessionOpened,
    SystemResumed,
    SystemStopped,
    TargetConfigured,
    UserAdded,
    UserDeactivated,
)
from audit.events.targets import CircuitClosed, CircuitOpened, TargetChecked

__all__ = [
    "EVENTS",
    "AgentEdited",
    "AgentRegistered",
    "AgentResumed",
    "AgentStatusChanged",
    "AgentStopped",
    "ArtifactRegistered",
    "AttemptFinished",
    "AttemptReportedLate",
    "AttemptStarted",
    "BudgetRefilled",
    "BudgetSpent",
    "ChildOpened",
    "CircuitClosed",
    "CircuitOpened",
    "ContextCompiled",
    "EscalationClaimed",
    "EscalationDecided",
    "EscalationExpired",
    "EscalationOpened",
    "EscalationRefused",
    "EscalationReleased",
    "EscalationRevised",
    "EscalationWithdrawn",
    "Event",
    "FactWritten",
    "FlowMoved",
    "FlowOpened",
    "GuardConfigured",
    "GuardFailed",
    "GuardSwitched",
    "InformationAnswered",
    "InformationClosed",
    "InformationRequested",
    "IntentBlocked",
    "IntentCancelled",
    "IntentCreated",
    "IntentHeld",
    "IntentInDoubt",
    "IntentResumed",
    "IntentSuperseded",
    "KeyIssued",
    "KeyRevoked",
    "Kind",
    "KindActivated",
    "KindDiscarded",
    "KindRegistered",
    "ManifestActivated",
    "ManifestDiscarded",
    "ManifestRegistered",
    "MemoryDiscarded",
    "MemoryReleased",
    "MemoryWritten",
    "OutcomeRecorded",
    "PackLoaded",
    "PayloadErased",
    "ProposalSubmitted",
    "Reason",
    "RequestRefused",
    "ResourceCommitted",
    "ResourceConfigured",
    "ResourcePinned",
    "ResourceReleased",
    "ResourceReserved",
    "ReviewClosed",
    "ReviewFlagged",
    "SessionOpened",
    "StepReported",
    "SystemResumed",
    "SystemStopped",
    "TargetChecked",
    "TargetConfigured",
    "UsageReported",
    "UserAdded",
    "UserDeactivated",
    "VerdictGiven",
    "read",
]

EVENTS: Mapping[Kind, type[Event]] = MappingProxyType({event.kind: event for event in Event.__subclasses__()})


def read(kind: str, payload: Mapping[str, Any]) -> Event:
    """The event of a stored payload. Members that newer code added are ignored, so that old code can read.

    Raises ValueError for an unknown kind or a payload that lacks a field.
    """
    return EVENTS[Kind(kind)].model_validate(dict(payload), strict=False, extra="ignore")
