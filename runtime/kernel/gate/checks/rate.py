"""Is the agent within its manifest's rate limit? Without one there is none."""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "rate"


def check(case: Case) -> Iterable[Finding]:
    """RATE_LIMITED when this proposal would be one too many in the last minute."""
    allowed = case.manifest.proposals_per_minute
    if allowed is None or case.proposal.by_person:
        return
    sent = (case.facts.history or {}).get("proposals_1m")
    if sent is None or sent >= allowed:
        yield findings.fail(
            NAME,
            Reason.RATE_LIMITED,
            "The agent proposes faster than its manifest allows. Wait a minute.",
            proposed_value=None if sent is None else sent + 1,
            limit=allowed,
        )
