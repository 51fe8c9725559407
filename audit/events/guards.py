"""Soft guards, and what people find when they review a flag."""

from audit.events.base import Event, Id, Kind, Names, Text


class GuardConfigured(Event):
    """`policy_kinds` empty: it looks at all of them."""

    kind = Kind.GUARD_CONFIGURED
    guard_id: str
    guard: Text
    digest: str
    policy_kinds: Names = ()
    emergency_stop: bool = False


class GuardSwitched(Event):
    kind = Kind.GUARD_SWITCHED
    guard_id: str
    enabled: bool
    reason: Text


class GuardFailed(Event):
    """It gave no answer that could be used, however often it was asked; nothing follows from that."""

    kind = Kind.GUARD_FAILED
    guard_id: str
    proposal_id: Id
    tries: int
    why: Text


class ReviewFlagged(Event):
    """The findings quote the agent, so they stay behind a commitment."""

    kind = Kind.REVIEW_FLAGGED
    review_id: Id
    proposal_id: Id
    guard_id: str
    guard_digest: str
    confidence: str
    codes: Names
    findings_commitment: str
    emergency_stop: Text
    agent_suspended: bool = False


class ReviewRequested(Event):
    """A person asks to review a flow that received an item of memory; the digest is that of its value."""

    kind = Kind.REVIEW_REQUESTED
    review_id: Id
    scope: str
    key: str
    version: int
    digest: str
    reason: Text


class ReviewRouted(Event):
    """A router demanded `next` after a step, when the flow had already proposed: a person looks instead."""

    kind = Kind.REVIEW_ROUTED
    review_id: Id
    workflow: str
    version: str
    instruction: str
    router: str
    next: str
    reason: Text


class ReviewClosed(Event):
    """`guard_id` is empty for a review that no guard asked for."""

    kind = Kind.REVIEW_CLOSED
    review_id: Id
    guard_id: str
    result: Text
    note: Text
