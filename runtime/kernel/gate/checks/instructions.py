"""How the agent came to the proposal: may its flow take the instruction PROPOSE from where it stands?"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.contracts.workflow import BudgetOf
from runtime.kernel import budget_rules
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.workflows import steps


def check_workflow(case: Case) -> Iterable[Finding]:
    """Does the agent's workflow allow a proposal from where the flow stands? (ArbiterOS: policies before)

    POLICY_VIOLATION or RATE_LIMITED for each policy that speaks against it; its `on_fail` says whether a
    person may allow it. What was reported of earlier steps is a claim, so this allows nothing that another
    check refuses. It is not asked of a proposal that a person wrote.
    """
    workflow, fold = case.rules.workflow, case.facts.workflow
    if workflow is None:
        return
    if fold is None:
        said = "It is not known where the flow stands in its workflow."
        yield findings.fail(CheckName.WORKFLOW, Reason.POLICY_VIOLATION, said)
        return
    asked = steps.Asked(
        instruction=steps.PROPOSE, now_ms=case.now_ms, input=case.proposal.params, left=_left(case)
    )
    for objection in steps.check(workflow, fold, asked):
        yield findings.by_rule(
            objection.on_fail,
            CheckName.WORKFLOW,
            objection.code,
            objection.message,
            subject=objection.subject,
        )


def _left(case: Case) -> dict[BudgetOf, int]:
    compute = case.facts.compute
    left = budget_rules.left(compute)
    found = {
        BudgetOf.TOKENS: left.get("tokens_left"),
        BudgetOf.COST: left.get("cost_left_micros"),
        BudgetOf.TOOL_CALLS: left.get("tool_calls_left"),
        BudgetOf.ESCALATIONS: case.facts.escalation_tokens,
    }
    if compute is not None and compute.ends_at_ms is not None:
        found[BudgetOf.WALL_CLOCK] = max(0, compute.ends_at_ms - case.now_ms) // budget_rules.MILLI
    return {budget: amount for budget, amount in found.items() if amount is not None}
