"""Is the agent sure enough, and does anybody ask for a person? (DIR paper, 9.2: model uncertainty)"""

from collections.abc import Iterable

from runtime.contracts.policy_kind import RiskTier
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "confidence"


def check(case: Case) -> Iterable[Finding]:
    """LOW_CONFIDENCE, REVIEW_REQUESTED, REVIEW_REQUIRED; confidence is not asked of a person."""
    if case.proposal.by_person:
        return
    yield from _threshold(case)
    if case.proposal.human_review_required:
        yield findings.refer(NAME, Reason.REVIEW_REQUESTED, "The agent asked for a person.")
    if case.kind.risk_tier is RiskTier.T3 and not case.manifest.waive_tier3_review:
        yield findings.refer(NAME, Reason.REVIEW_REQUIRED, "Risk tier T3 always needs a person.")


def _threshold(case: Case) -> Iterable[Finding]:
    """The stricter of the manifest's threshold and the tier's; none given counts as low.

    A T0 or T1 kind asks for confidence only where the manifest sets a threshold: the paper's own example
    proposal (5.2) carries none.
    """
    wanted = case.manifest.escalate_below_confidence
    tier = case.kind.confidence_threshold
    given = case.proposal.confidence
    if given is None and wanted is None and case.kind.risk_tier in {RiskTier.T0, RiskTier.T1}:
        return
    if case.kind.confidence_waiver:
        return
    threshold = max(tier, wanted or 0.0)
    if given is None or given < threshold:
        words = "No confidence was given" if given is None else "The confidence is low"
        yield findings.refer(
            NAME,
            Reason.LOW_CONFIDENCE,
            f"{words}; a person decides below the threshold.",
            proposed_value=given,
            limit=threshold,
        )
