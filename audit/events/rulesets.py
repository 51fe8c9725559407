"""Rulesets, what they said in a flow, and what was recommended from it."""

from audit.events.base import Event, Id, Kind, Text


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
    """A decision package, kept beside the ledger; `needs_person` where it abstains or denies."""

    kind = Kind.DECISION_RECOMMENDED
    decision_id: Id
    input_digest: str
    package_digest: str
    method: Text
    needs_person: bool
    rule_output_id: Id | None = None
