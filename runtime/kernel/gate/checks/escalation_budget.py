"""Can the agent still pay for a person's attention? (DIR paper, 9.3: the escalation budget)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "escalation_budget"


def check(case: Case) -> Iterable[Finding]:
    """ESCALATION_BUDGET_EXHAUSTED; the pipeline asks only when everything else would escalate."""
    if case.facts.escalation_tokens < 1 and not case.proposal.by_person:
        yield findings.fail(
            NAME,
            Reason.ESCALATION_BUDGET_EXHAUSTED,
            "The agent has no escalation left this hour: it becomes PASSIVE and the flow is aborted.",
            proposed_value=1,
            limit=case.facts.escalation_tokens,
        )
