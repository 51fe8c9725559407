"""Is the agent sure enough, and does anybody ask for a person? (DIR paper, 9.2: model uncertainty)"""

from collections.abc import Iterable

from runtime.contracts.policy_kind import RiskTier
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "confidence"


def check(case: Case) -> Iterable[Finding]:
    """LOW_CONFIDENCE, REVIEW_REQUESTED, REVIEW_REQUIRED; confidence is not asked of a person.

    The stricter of the manifest's threshold and the tier's counts, and no confidence counts as low. But a T0
    or T1 kind asks for it only where the manifest sets a threshold: the paper's own example proposal (5.2)
    carries none.
    """
    if case.proposal.by_person:
        return
    given, wanted = case.proposal.confidence, case.manifest.escalate_below_confidence
    threshold = max(case.kind.confidence_threshold, wanted or 0.0)
    is_spared = given is None and wanted is None and case.kind.risk_tier in {RiskTier.T0, RiskTier.T1}
    is_low = given is None or given < threshold
    if is_low and not is_spared and not case.kind.confidence_waiver:
        words = "No confidence was given" if given is None else "The confidence is low"
        yield findings.refer(
            NAME,
            Reason.LOW_CONFIDENCE,
            f"{words}; a person decides below the threshold.",
            proposed_value=given,
            limit=threshold,
        )
    if case.proposal.human_review_required:
        yield findings.refer(NAME, Reason.REVIEW_REQUESTED, "The agent asked for a person.")
    if case.kind.risk_tier is RiskTier.T3 and not case.manifest.waive_tier3_review:
        yield findings.refer(NAME, Reason.REVIEW_REQUIRED, "Risk tier T3 always needs a person.")
