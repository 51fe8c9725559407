"""Rulesets, what they said in a flow, what was recommended from it, and who was consulted about that."""

from pydantic import Field

from audit.events.base import At, Event, Id, Kind, Text, is_absent


class RulesetRegistered(Event):
    kind = Kind.RULESET_REGISTERED
    ruleset: str
    version: str
    digest: str


class RulesetActivated(Event):
    """`solo`: by its own author, the only admin; `replaces`: the version that was active before."""

    kind = Kind.RULESET_ACTIVATED
    ruleset: str
    version: str
    digest: str
    reason: Text = ""
    solo: bool = False
    replaces: str = ""


class RulesetDiscarded(Event):
    """A draft that never becomes active."""

    kind = Kind.RULESET_DISCARDED
    ruleset: str
    version: str
    digest: str
    reason: Text


class RulesEvaluated(Event):
    """What a ruleset said of features; both are kept beside the ledger, behind salted digests."""

    kind = Kind.RULES_EVALUATED
    rule_output_id: Id
    ruleset: str
    version: str
    ruleset_digest: str
    input_digest: str
    output_digest: str
    status: Text


class DecisionRecommended(Event):
    """A decision package, kept beside the ledger; `needs_person` where it consults, abstains or denies.

    `asked` providers were consulted about its options, `answered` of them did, and `agreeing` chose what was
    selected: claims, of which the package has the words.
    """

    kind = Kind.DECISION_RECOMMENDED
    decision_id: Id
    input_digest: str
    package_digest: str
    method: Text
    needs_person: bool
    rule_output_id: Id | None = None
    asked: int = Field(default=0, exclude_if=is_absent)
    answered: int = Field(default=0, exclude_if=is_absent)
    agreeing: int = Field(default=0, exclude_if=is_absent)


class ConsultationAsked(Event):
    """A question to a provider, which stands behind `message_commitment`; it may cost `cost_micros`.

    A cost is in millionths of a cost unit.
    """

    kind = Kind.CONSULTATION_ASKED
    consultation_id: Id
    provider: Text
    capability: Text
    conversation_id: Id
    message_id: Text
    message_commitment: str
    cost_micros: int
    deadline: At


class ConsultationEnded(Event):
    """What came of a question: the words of an answer stand behind `message_commitment`."""

    kind = Kind.CONSULTATION_ENDED
    consultation_id: Id
    provider: Text
    state: Text
    message_id: Text | None = None
    message_commitment: str | None = None
