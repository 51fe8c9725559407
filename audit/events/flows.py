"""What happens in a flow up to its verdict."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict

from audit.events.base import At, Event, Id, Kind, Names, Text, is_absent


class ReasonEntry(BaseModel):
    """One finding of a verdict, by check and code; its words and numbers are in the stored verdict."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    check: Text
    code: Text


class FlowOpened(Event):
    """`told_recorded`: the entries of this flow commit to all that its agent is told and answered.

    Each such commitment is a further member of the last entry of its transaction (`audit.told`).
    """

    kind = Kind.FLOW_OPENED
    agent_id: str
    trigger_commitment: str
    parent_dfid: Id | None = None
    traceparent: str | None = None
    # Where the agent runs: as its key says, else as it says itself; and for which user it says that it acts.
    environment: Text = ""
    environment_of_key: Annotated[bool, Field(exclude_if=is_absent)] = False
    delegated_user_id: str | None = None
    told_recorded: bool = False


class TaskContextChanged(Event):
    """The next version of the context that an agent keeps with its flow: a claim that no check reads.

    `part` is CONTEXT (the whole new document is behind the commitment), EVENT (one that it added) or LINK, to
    `link_ref`: a path, a digest, a DFID or a number, by `link_to`.
    """

    kind = Kind.TASK_CONTEXT_CHANGED
    version: int
    part: str
    words_commitment: str | None = None
    event_id: str | None = None
    link_to: str | None = None
    link_ref: str | None = None
    # Of the fact that is linked.
    link_version: int | None = None


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
    # That of what compiled it; none in entries of earlier versions.
    compiler_version: Text = ""


class StepReported(Event):
    """A claim of the agent about its own reasoning; never proof."""

    kind = Kind.STEP_REPORTED
    step_type: Text
    digest: str
    payload_ref: str | None = None
    source_labels: Names = ()
    summary_commitment: str | None = None


class UsageReported(Event):
    """Deltas as the agent reports them; cost as a decimal string.

    With `intent_id` they are read from the answer of the call `number` by the meter of its step; `unread`
    names what the answer did not say.
    """

    kind = Kind.USAGE_REPORTED
    tokens: int
    cost_usd: str | None = None
    tool_calls: int | None = None
    # What the agent says of the model that it used; nobody checks it.
    model: dict[str, Any] | None = None
    intent_id: Annotated[Id | None, Field(exclude_if=is_absent)] = None
    number: Annotated[int | None, Field(exclude_if=is_absent)] = None
    unread: Annotated[Names, Field(exclude_if=is_absent)] = ()


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
    # Where the agent signed it: the name of its key, and what it signed with the signature.
    signed_by: str | None = Field(default=None, exclude_if=is_absent)
    signature_commitment: str | None = Field(default=None, exclude_if=is_absent)


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
    # What it obliges the runtime to, and by which codes it allows; older entries do not say.
    obligations: Names = ()
    allowed_by: Names = ()
