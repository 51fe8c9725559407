"""Has the agent attempts left in this flow? (Intent Retry Governor; DIR paper, 6.2 and 9.3)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "retries"


def check(case: Case) -> Iterable[Finding]:
    """REASONING_EXHAUSTION when none is left. A person's decision is not an attempt of the agent."""
    flow = case.facts.flow
    if flow.attempts_used >= flow.attempts_allowed and not case.proposal.by_person:
        yield exhaustion(case)


def exhaustion(case: Case) -> Finding:
    """The finding that ends a flow of failed attempts; the pipeline adds it to the last REJECT."""
    flow = case.facts.flow
    return findings.fail(
        NAME,
        Reason.REASONING_EXHAUSTION,
        "The flow has used its last attempt and is aborted. Open a new flow.",
        proposed_value=flow.attempts_used + 1,
        limit=flow.attempts_allowed,
    )
