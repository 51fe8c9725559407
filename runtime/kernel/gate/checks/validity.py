"""Is the decision still inside its validity window? (DIR paper, 6.4)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "validity"


def check(case: Case) -> Iterable[Finding]:
    """EXPIRED when the judged moment is past `valid_until`."""
    if case.now_ms > case.proposal.valid_until_ms:
        yield findings.fail(
            NAME,
            Reason.EXPIRED,
            "The validity window has ended. Propose again from a fresh context.",
            proposed_value=case.now_ms,
            limit=case.proposal.valid_until_ms,
        )
