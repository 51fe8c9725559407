"""What a flow came to, at a checkpoint or at its end."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

from audit.events.base import Event, Id, Kind, Names, Text


class RecordFeedbackGiven(Event):
    """What the actor thinks of a record afterwards; the reason is behind a commitment, none without one.

    `number` counts what this person has said of the record: the highest counts. It changes no record and no
    verdict. `has_decided`: the person is among the record's approvers.
    """

    kind = Kind.RECORD_FEEDBACK_GIVEN
    feedback_id: Id
    record_id: Id
    record_hash: str
    number: int
    assessment: Text
    correction: Text
    reason_commitment: str | None
    has_decided: bool


class StrategyRuleProposed(Event):
    """A draft that a person made of a precedent: decisions of people that were always the same.

    `document` is `policy_kind` or `manifest`, `name` the kind or the agent, and `version` the draft, which
    rules nothing until it is activated. `record_ids` are the newest of the `cases` records that it rests on,
    `digest` is that of the precedent as it was shown.
    """

    kind = Kind.STRATEGY_RULE_PROPOSED
    rule_id: Id
    change: Text
    decision_key: Text
    finding: Text
    document: Text
    name: str
    version: str
    value_before: str
    value_after: str
    cases: int
    people: int
    record_ids: Names
    digest: str


class RecordEmitted(Event):
    """A signed DecisionRecord over all entries before this one.

    `fold_version` is that of `audit.records.fold`; `signature` is over its DSSE statement.
    """

    kind = Kind.RECORD_EMITTED
    record_id: Id
    status: Text
    terminal: bool
    record_hash: str
    fold_version: str
    signature: str
    key_id: str


class ScoreEntry(BaseModel):
    """What one evaluator gave: `value` and `minimum` are decimals; without a value it could not tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluator: Text
    version: Text
    value: str | None
    minimum: str
    passed: bool | None
    reason: Text


class RecordScored(Event):
    """The scorecard of the flow's newest record, a terminal one that nothing has changed since.

    `record_hash` is the hash of the record that was scored. A suite that is not known here scores nothing.
    """

    kind = Kind.RECORD_SCORED
    record_id: Id
    record_hash: str
    suite: Text
    result: Text
    reason: Text
    scores: Annotated[tuple[ScoreEntry, ...], Strict(False)] = ()
