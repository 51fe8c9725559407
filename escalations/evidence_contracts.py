"""The evidence of an escalation as it is stored and hashed: what a person is shown before deciding.

Its canonical bytes are what a decision signs. Fields are only ever appended, and left out of the bytes where
they were not there, so that evidence stored earlier is written back as it was.
"""

from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter

from escalations.advice_contracts import AdviceEvidence
from escalations.contracts import Family
from runtime.contracts.calibration import UsedConfidence
from runtime.contracts.document import Contract, is_empty, is_none, is_one
from runtime.contracts.facts import AgentFacts
from runtime.contracts.manifest import Hours
from runtime.contracts.states import Decision, Impact
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Difference, FigureShown, Finding, FindingOutcome, Segment
from runtime.contracts.workflow import WorkflowFold

# Of the ids that the queue groups and filters by.
NAME_CHARS = 200


def _name(finding: Finding) -> str:
    """The id of the limit, rule or constraint that a finding is about, else the name of its check."""
    # A rule is named by the code, and a constraint by the beginning of the message.
    ids = {"rules": finding.code, "constraints": finding.message.partition(":")[0]}
    return finding.subject or ids.get(finding.check, "") or finding.check


class EvidencePart(BaseModel):
    """A part of evidence. It is no document of its own: a `digest` in it is that of what it describes."""

    model_config = Contract.model_config


class EvidenceDocument(Contract):
    """What all evidence has. Times are ISO 8601 text, ids are text; words of rows are kept as they were."""

    escalation_id: str
    revision: int
    family: Family
    reason: str
    dfid: str
    frozen_at: str
    effect: tuple[Segment, ...]
    impact: Impact
    # What a person types again before a HIGH_IMPACT decision; empty where nothing is.
    type_again: str

    @property
    def agent_id(self) -> str:
        """The agent that the escalation is about."""
        raise NotImplementedError

    @property
    def policy_kind(self) -> str:
        """The policy kind of the proposal; empty without one."""
        return ""

    @property
    def proposal_id(self) -> str | None:
        """The proposal; None where nothing was proposed."""
        return None

    @property
    def intent_id(self) -> str | None:
        """The intent that is stuck; None before there is one."""
        return None

    @property
    def amounts(self) -> AmountUnits:
        """The units of the amounts; empty where none has one."""
        return AmountUnits()

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings that nobody can override."""
        return ()

    @property
    def referred(self) -> tuple[Finding, ...]:
        """The findings that a person may override, as they were shown."""
        return ()

    @property
    def rule(self) -> str:
        """The id of the rule, limit or check that referred it; empty where none did."""
        crossed = (item for item in (*self.failing, *self.referred) if item.code == self.reason)
        return next((_name(item) for item in crossed), "")[:NAME_CHARS]

    @property
    def incident(self) -> str:
        """What holds it up beside others of its kind; empty where nothing does."""
        return ""


class ProposalEvidence(EvidencePart):
    """The proposal: who made it, with what."""

    proposal_id: str
    author: str
    params: dict[str, Any]
    execution_constraints: dict[str, Any]
    context_ref: str | None
    confidence: float | None
    human_review_required: bool
    received_at: str
    digest: str


class FactEvidence(EvidencePart):
    """A fact as it was judged, with its source; `depended_on` where the kind's drift rules watch it."""

    path: str
    value: Any
    depended_on: bool
    version: int | None
    writer: str
    written_at: str
    digest: str


class AgentEvidence(AgentFacts):
    """The agent, and the version of its active manifest."""

    manifest_version: str


class CallEvidence(EvidencePart):
    """One call that the kind makes."""

    step: str
    target: str
    executor: str


class KindEvidence(EvidencePart):
    """The policy kind; `undo` names the steps that can be undone.

    `approvals` is how many different people it asks for, `gate_id` the group that they must be in, if any.
    """

    kind: str
    version: str
    digest: str
    title: str
    reversible: bool
    undo: tuple[str, ...]
    calls: tuple[CallEvidence, ...]
    params_schema: dict[str, Any]
    approvals: int = Field(default=1, exclude_if=is_one)
    gate_id: str | None = Field(default=None, exclude_if=is_none)


class AnswerEvidence(EvidencePart):
    """The agent's answer to a question: a claim, which no rule reads."""

    number: int
    question: str
    asked_by: str
    asked_at: str
    answer: str
    payload_ref: str
    answered_at: str


class StepEvidence(EvidencePart):
    """One step of several, with what was last recorded of it."""

    step: str
    target: str
    state: str
    is_current: bool
    has_undo: bool
    recorded_at: str
    recorded_by: str


class AttemptEvidence(EvidencePart):
    """One attempt; `direction` and `purpose` where it was not plainly the call of the only step."""

    number: int
    step: str
    key: str
    state: str
    error_category: str
    status_code: int | None
    detail: str
    started_at: str
    direction: str | None = Field(default=None, exclude_if=is_none)
    purpose: str | None = Field(default=None, exclude_if=is_none)


class IntentEvidence(EvidencePart):
    """What was tried. `direction`, `cause` and `steps` are those of an intent of several steps."""

    intent_id: str
    target: str
    failures: int
    attempts: tuple[AttemptEvidence, ...]
    direction: str | None = Field(default=None, exclude_if=is_none)
    cause: str | None = Field(default=None, exclude_if=is_none)
    steps: tuple[StepEvidence, ...] = Field(default=(), exclude_if=is_empty)


class JudgedEvidence(EvidenceDocument):
    """Evidence about a proposal, as the gate judged it. `difference` are the facts expected to change."""

    difference: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    decision: Decision
    proposal: ProposalEvidence
    facts: tuple[FactEvidence, ...]
    agent: AgentEvidence
    manifest_limits: dict[str, Any]
    kind: KindEvidence
    policy_bundle_hash: str
    input_digest: str
    operational: IntentEvidence | None
    explain: str
    figures: tuple[FigureShown, ...] | None = Field(default=None, exclude_if=is_none)
    questions: tuple[AnswerEvidence, ...] = Field(default=(), exclude_if=is_empty)
    units: AmountUnits | None = Field(default=None, exclude_if=is_none)
    # Where an active calibration map was asked: which confidence the gate compared.
    calibrated: UsedConfidence | None = Field(default=None, exclude_if=is_none)
    # Where the proposal names a decision package.
    advice: AdviceEvidence | None = Field(default=None, exclude_if=is_none)
    salt: str | None = Field(default=None, exclude_if=is_none)

    @property
    def agent_id(self) -> str:
        return self.agent.agent_id

    @property
    def policy_kind(self) -> str:
        return self.kind.kind

    @property
    def proposal_id(self) -> str | None:
        return self.proposal.proposal_id

    @property
    def failing(self) -> tuple[Finding, ...]:
        return tuple(item for item in self.findings if item.outcome is FindingOutcome.FAIL)

    @property
    def referred(self) -> tuple[Finding, ...]:
        return tuple(item for item in self.findings if item.outcome is FindingOutcome.REFER)

    @property
    def amounts(self) -> AmountUnits:
        return self.units or AmountUnits()

    @property
    def findings_key(self) -> frozenset[tuple[str, str, str]]:
        """The findings against the proposal: what has to stay the same for the evidence to hold."""
        return frozenset((item.check, item.code, item.subject) for item in (*self.failing, *self.referred))

    @property
    def seen_facts(self) -> dict[str, Any]:
        """The facts that were shown, path to value."""
        return {fact.path: fact.value for fact in self.facts}

    @property
    def watched_digests(self) -> dict[str, str]:
        """The facts that the evidence depends on, path to digest; empty where there was no such fact."""
        predicted = {item.fact for item in self.difference}
        known = {fact.path: fact.digest for fact in self.facts if fact.depended_on or fact.path in predicted}
        return dict.fromkeys(predicted, "") | known


class DecisionEvidence(JudgedEvidence):
    """Evidence about a proposal that waits for a person; nothing has run."""

    family: Literal[Family.DECISION]
    operational: None

    @property
    def incident(self) -> str:
        """The first finding that nobody can override, such as a closed market."""
        return next((_name(item) for item in self.failing), "")[:NAME_CHARS]


class OperationalEvidence(JudgedEvidence):
    """Evidence about an intent after acceptance: also what was tried."""

    family: Literal[Family.OPERATIONAL]
    operational: IntentEvidence

    @property
    def intent_id(self) -> str | None:
        return self.operational.intent_id

    @property
    def incident(self) -> str:
        """The target and how its last call failed; empty where none was made."""
        tried = self.operational
        if not tried.attempts:
            return ""
        last = tried.attempts[-1]
        failure = last.status_code or last.error_category or last.state
        return f"{tried.target} {failure}"[:NAME_CHARS]


class SilentAgentEvidence(EvidencePart):
    """Who is silent, and whose agent it is."""

    agent_id: str
    role: str
    owner: str
    mission: str
    status: str
    manifest_version: str | None
    manifest_digest: str | None


class SilencePeriod(EvidencePart):
    """Since when, and how long in the agent's hours; lengths are in seconds, `hours` None means always."""

    since: str
    last_seen_at: str | None
    awake_s: int
    silent_after_s: int
    hours: Hours | None


class OpenFlowEvidence(EvidencePart):
    """An open flow of the agent."""

    dfid: str
    state: str
    policy_kind: str
    opened_at: str


class OpenFlowsEvidence(EvidencePart):
    """How many flows are open, and the newest of them."""

    total: int
    newest: tuple[OpenFlowEvidence, ...]


class LiveIntentEvidence(EvidencePart):
    """A call of the agent that is under way, or may still be made."""

    intent_id: str
    dfid: str
    state: str
    target: str
    valid_until: str


class LiveIntentsEvidence(EvidencePart):
    """How many intents are live, and the newest of them."""

    total: int
    newest: tuple[LiveIntentEvidence, ...]


class LastVerdictEvidence(EvidencePart):
    """One of the latest verdicts on the agent's own proposals; None where the row of it is gone."""

    decision: str | None
    policy_kind: str
    dfid: str
    received_at: str


class SilenceEvidence(EvidenceDocument):
    """Evidence about an agent that fell silent: nothing was proposed."""

    family: Literal[Family.AGENT]
    agent: SilentAgentEvidence
    silence: SilencePeriod
    open_flows: OpenFlowsEvidence
    live_intents: LiveIntentsEvidence
    last_verdicts: tuple[LastVerdictEvidence, ...]
    salt: str | None = Field(default=None, exclude_if=is_none)

    @property
    def agent_id(self) -> str:
        return self.agent.agent_id


class FollowedWorkflow(EvidencePart):
    """The workflow that a flow follows, and the instructions that a person may redirect it to."""

    workflow: str
    version: str
    digest: str
    instructions: tuple[str, ...]


class RefusedPolicy(EvidencePart):
    """A policy that refuses what must come next, in its words."""

    policy: str
    message: str


class RefusedStep(EvidencePart):
    """A step that the agent asked for, with what it gave."""

    instruction: str
    input: dict[str, Any]


class InterruptCause(EvidencePart):
    """The policy that called a person, what it demands, and why.

    `refused_by` refuses the `refused` step, which a person may allow, or without one what is demanded.
    """

    policy: str
    demands: str
    message: str
    refused_by: tuple[RefusedPolicy, ...] = Field(default=(), exclude_if=is_empty)
    refused: RefusedStep | None = Field(default=None, exclude_if=is_none)


class InterruptEvidence(EvidenceDocument):
    """Evidence about a flow that does not continue in its workflow. What `fold` has of steps are claims."""

    family: Literal[Family.INTERRUPT]
    agent: AgentEvidence
    followed: FollowedWorkflow
    cause: InterruptCause
    fold: WorkflowFold
    questions: tuple[AnswerEvidence, ...] = Field(default=(), exclude_if=is_empty)
    salt: str

    @property
    def agent_id(self) -> str:
        return self.agent.agent_id

    @property
    def rule(self) -> str:
        return self.cause.policy[:NAME_CHARS]


AnyEvidence = DecisionEvidence | OperationalEvidence | SilenceEvidence | InterruptEvidence
# Evidence that is kept as it was read: a queue shows the same again and again.
MOST_KEPT: Final = 256
_READER: TypeAdapter[AnyEvidence] = TypeAdapter(Annotated[AnyEvidence, Field(discriminator="family")])


@lru_cache(maxsize=MOST_KEPT)
def read_evidence(body: bytes) -> AnyEvidence:
    """Read evidence back from its stored bytes, by its family. The same bytes are read once.

    Raises:
        pydantic.ValidationError: when the bytes are no evidence.
    """
    return _READER.validate_json(body)
