"""Has the flow's reasoning stayed inside its compute budget? (DIR paper, 9.3)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel import budget_rules
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "budget"


def applies(case: Case) -> bool:
    """Only where a compute budget is kept."""
    return case.facts.compute is not None


def check(case: Case) -> Iterable[Finding]:
    """BUDGET_EXCEEDED for each bound that is passed; a person's decision is not the agent's reasoning."""
    compute = case.facts.compute
    if compute is None or case.proposal.by_person:
        return
    opened_at_ms = case.facts.flow.opened_at_ms
    for item in budget_rules.overspent(compute, opened_at_ms=opened_at_ms, now_ms=case.now_ms):
        yield findings.fail(
            NAME,
            Reason.BUDGET_EXCEEDED,
            f"The flow has used more {item.what.value} than it may and is aborted. Open a new flow.",
            subject=item.what.value,
            proposed_value=item.used,
            limit=item.cap,
        )
