"""What people are asked and what they decide."""

from audit.events.base import At, Event, Id, Kind, Text


class EscalationOpened(Event):
    """`approvals` is how many people the policy kind asks for; at CRITICAL impact two are needed anyhow.

    Entries of old have none.
    """

    kind = Kind.ESCALATION_OPENED
    escalation_id: Id
    family: Text
    reason: Text
    impact: Text
    revision: int
    evidence_hash: str
    deadline_at: At | None = None
    approvals: int | None = None


class EscalationRevised(Event):
    """`impact` and `approvals` are those of the new evidence. Entries of old have neither."""

    kind = Kind.ESCALATION_REVISED
    escalation_id: Id
    revision: int
    evidence_hash: str
    why: Text
    impact: Text | None = None
    approvals: int | None = None


class EscalationClaimed(Event):
    """`renewed`: by who has it already, for another while."""

    kind = Kind.ESCALATION_CLAIMED
    escalation_id: Id
    renewed: bool = False


class EscalationReleased(Event):
    kind = Kind.ESCALATION_RELEASED
    escalation_id: Id


class EscalationRefused(Event):
    """`action` is empty where two people decide: the second must not learn what the first tried."""

    kind = Kind.ESCALATION_REFUSED
    escalation_id: Id
    action: Text
    code: Text


class EscalationDecided(Event):
    """`effect` is what the person says became of a call in doubt; `sequence` counts after a take-back."""

    kind = Kind.ESCALATION_DECIDED
    escalation_id: Id
    action: Text
    revision: int
    evidence_hash: str
    statement_digest: str
    signature: str
    key_id: str
    proposal_id: Id | None = None
    effect: Text | None = None
    sequence: int = 1


class EscalationFirstDecided(Event):
    """The first of two people has decided. What was chosen stays behind the digest until the end."""

    kind = Kind.ESCALATION_FIRST_DECIDED
    escalation_id: Id
    sequence: int
    revision: int
    evidence_hash: str
    statement_digest: str
    signature: str
    key_id: str


class EscalationFirstEnded(Event):
    """The first decision, by its `sequence`, no longer awaits a second: CONFIRMED by it, or SUPERSEDED."""

    kind = Kind.ESCALATION_FIRST_ENDED
    escalation_id: Id
    sequence: int
    state: Text
    why: Text


class EscalationReopened(Event):
    """A decision was taken back before anything ran; `sequence` is that of the decision."""

    kind = Kind.ESCALATION_REOPENED
    escalation_id: Id
    sequence: int
    deadline_at: At | None = None


class EffectStated(Event):
    """A person says later what became of a call that was left in doubt; the signed words are kept with it.

    `contradicts` is the person who had stated otherwise, before a receipt came that says it happened.
    """

    kind = Kind.EFFECT_STATED
    escalation_id: Id
    intent_id: Id
    number: int
    step: str
    direction: Text
    effect: Text
    statement_digest: str
    signature: str
    key_id: str
    contradicts: Text | None = None


class EscalationExpired(Event):
    kind = Kind.ESCALATION_EXPIRED
    escalation_id: Id


class EscalationWithdrawn(Event):
    """Its flow ended otherwise, so nobody needs to decide."""

    kind = Kind.ESCALATION_WITHDRAWN
    escalation_id: Id


class InformationRequested(Event):
    """A person asks the agent; the words are behind the commitment, the statement is signed."""

    kind = Kind.INFORMATION_REQUESTED
    escalation_id: Id
    number: int
    text_commitment: str
    revision: int
    evidence_hash: str
    until: At
    statement_digest: str
    signature: str
    key_id: str


class InformationAnswered(Event):
    """The agent's answer: a claim."""

    kind = Kind.INFORMATION_ANSWERED
    escalation_id: Id
    number: int
    answer_commitment: str
    payload_ref: Text | None = None


class InformationClosed(Event):
    """Nobody waits for the answer any more."""

    kind = Kind.INFORMATION_CLOSED
    escalation_id: Id
    number: int
    why: Text
