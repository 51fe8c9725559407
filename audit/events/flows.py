"""What happens in a flow up to its verdict."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

from audit.events.base import At, Event, Id, Kind, Names, Text


class ReasonEntry(BaseModel):
    """One finding of a verdict, by check and code; its words and numbers are in the stored verdict."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    check: Text
    code: Text


class FlowOpened(Event):
    kind = Kind.FLOW_OPENED
    agent_id: str
    trigger_commitment: str
    parent_dfid: Id | None = None
    traceparent: str | None = None


class FlowMoved(Event):
    kind = Kind.FLOW_MOVED
    from_state: Text
    to_state: Text
    reason: Text


class ChildOpened(Event):
    """Stands in the parent's stream: who acts for it, in which flow."""

    kind = Kind.CHILD_OPENED
    child_dfid: Id
    agent_id: str


class ContextCompiled(Event):
    kind = Kind.CONTEXT_COMPILED
    context_ref: str
    fact_count: int
    expires_at: At


class StepReported(Event):
    """A claim of the agent about its own reasoning; never proof."""

    kind = Kind.STEP_REPORTED
    step_type: Text
    digest: str
    payload_ref: str | None = None
    source_labels: Names = ()
    summary_commitment: str | None = None


class UsageReported(Event):
    """Deltas as the agent reports them; cost as a decimal string."""

    kind = Kind.USAGE_REPORTED
    tokens: int
    cost_usd: str | None = None
    tool_calls: int | None = None


class ProposalSubmitted(Event):
    """Parameters and explanation are behind commitments; without an explanation there is none."""

    kind = Kind.PROPOSAL_SUBMITTED
    proposal_id: Id
    author: str
    policy_kind: str
    policy_version: str
    proposal_digest: str
    params_commitment: str
    context_ref: str
    valid_until: At
    explain_commitment: str | None = None


class RedactionApplied(Event):
    """Parts of what came in were replaced, and are stored nowhere: how often by which rule, by its id.

    `source` is `receipt`, `explain` or `answer`, and `about` the intent, proposal or escalation that it came
    for; `number` is that of the attempt or question.
    """

    kind = Kind.REDACTION_APPLIED
    source: Text
    about: Id
    rules: dict[str, int]
    number: int | None = None


class VerdictGiven(Event):
    kind = Kind.VERDICT_GIVEN
    proposal_id: Id
    verdict: Text
    reasons: Annotated[tuple[ReasonEntry, ...], Strict(False)]
    input_digest: str
    verdict_digest: str
    policy_bundle_hash: str
    gate_version: str
    impact: Text
