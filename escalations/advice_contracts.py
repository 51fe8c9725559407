"""What the runtime recommended before a proposal, as it is part of the evidence: alternatives and rules."""

from typing import Any

from pydantic import BaseModel, Field

from runtime.contracts.document import Contract, is_empty, is_none


class AdvicePart(BaseModel):
    """A part of evidence, as `evidence_contracts.EvidencePart`."""

    model_config = Contract.model_config


class AlternativeEvidence(AdvicePart):
    """An option that nothing ruled out and that was not selected.

    Its utility is the weighted sum of what the agent stated for each objective; `trade_offs` says by how much
    it is better (more than 0) or worse than what was selected, by objective.
    """

    id: str
    action: str
    params: dict[str, Any]
    expected_utility: int | float | None
    confidence: int | float | None
    trade_offs: tuple[tuple[str, int | float], ...]


class DroppedEvidence(AdvicePart):
    """An option that was ruled out, and why."""

    id: str
    reason: str


class RuleMatchEvidence(AdvicePart):
    """A rule that holds, and what it proposes."""

    rule_id: str
    version: str
    decides: str
    action: str
    params: dict[str, Any]
    certainty: int | float
    mandatory: bool
    justification: str


class RuleOutputEvidence(AdvicePart):
    """What a ruleset said of the features that the agent gave it."""

    rule_output_id: str
    ruleset: str
    status: str
    matches: tuple[RuleMatchEvidence, ...]
    # The id and the detail of each.
    guardrails: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=is_empty)
    conflicts: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=is_empty)
    residuals: tuple[str, ...] = Field(default=(), exclude_if=is_empty)


class ConsultedEvidence(AdvicePart):
    """What became of a question to another agent; all but the state is a claim of that provider.

    It `counts` where the provider was asked about the options of this package, and `dissents` where it chose
    another one than was selected.
    """

    provider: str
    capability: str
    state: str
    counts: bool
    dissents: bool
    choice: str
    confidence: int | float | None
    reason: str
    dissent: tuple[str, ...] = Field(default=(), exclude_if=is_empty)


class ConsensusEvidence(AdvicePart):
    """How far those agree who were consulted, as the runtime counted it; shares of those that answered."""

    asked: int
    answered: int
    abstained: int
    leading: str
    agreement: int | float | None
    support: int | float | None
    dispersion: int | float | None


class AdviceEvidence(AdvicePart):
    """The decision package that the proposal names. `is_followed`: it proposes what was selected.

    Where `differs` names rows that are not what the ledger recorded, the rest is empty.
    """

    decision_id: str
    package_digest: str = ""
    method: str = ""
    action: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    expected_utility: int | float | None = None
    confidence: int | float | None = None
    needs_person: bool = False
    is_followed: bool = False
    alternatives: tuple[AlternativeEvidence, ...] = ()
    dropped: tuple[DroppedEvidence, ...] = ()
    rules: RuleOutputEvidence | None = Field(default=None, exclude_if=is_none)
    differs: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    consulted: tuple[ConsultedEvidence, ...] = Field(default=(), exclude_if=is_empty)
    consensus: ConsensusEvidence | None = Field(default=None, exclude_if=is_none)
