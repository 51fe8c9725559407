"""Thin rows, one file per noun; the database states every rule that a row must keep."""

from runtime.models.agent import Agent, Manifest
from runtime.models.agent_event import AgentEvent, Inbox, Timer
from runtime.models.boot import Boot
from runtime.models.circuit import Circuit
from runtime.models.credential import Key, Session
from runtime.models.epoch import Epoch
from runtime.models.fact import Fact, FactVersion
from runtime.models.flow import Feedback, Flow, Snapshot
from runtime.models.guard import Guard, GuardRun, Review
from runtime.models.intent import Attempt, Intent, Outcome, StepReceipt, Stop
from runtime.models.membership import FailedSignin, Membership
from runtime.models.memory import Artifact, MemoryItem
from runtime.models.ownership import OwnerChange
from runtime.models.policy_kind import Bundle, Pack, PolicyKind, Target
from runtime.models.proposal import Answer, Proposal, Verdict
from runtime.models.resource import Reservation, Resource
from runtime.models.usage import ComputeBudget, UsageReport
from runtime.models.watch import WatchRound

__all__ = [
    "Agent",
    "AgentEvent",
    "Answer",
    "Artifact",
    "Attempt",
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
    "Inbox",
    "Intent",
    "Key",
    "Manifest",
    "Membership",
    "MemoryItem",
    "Outcome",
    "OwnerChange",
    "Pack",
    "PolicyKind",
    "Proposal",
    "Reservation",
    "Resource",
    "Review",
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
