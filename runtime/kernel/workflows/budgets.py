"""What is left of each budget that a checker of a workflow may ask. Pure."""

from runtime.contracts.facts import ComputeFacts
from runtime.contracts.workflow import BudgetOf
from runtime.kernel import budget_rules
from runtime.kernel.workflows.steps import Remainder


def remainders(
    compute: ComputeFacts | None, *, opened_at_ms: int, escalation_tokens: int, per_hour: int, now_ms: int
) -> dict[BudgetOf, Remainder]:
    """What is left of the budgets that have a cap, and the cap.

    Cost in micro-dollars, wall clock in milliseconds, escalations in tokens of the agent's bucket.
    """
    found = {BudgetOf.ESCALATIONS: Remainder(escalation_tokens, per_hour)}
    if compute is None:
        return found
    left = budget_rules.left(compute)
    for budget, name, cap in (
        (BudgetOf.TOKENS, "tokens_left", compute.tokens_cap),
        (BudgetOf.COST, "cost_left_micros", compute.cost_cap_micros),
        (BudgetOf.TOOL_CALLS, "tool_calls_left", compute.tool_calls_cap),
    ):
        if cap is not None:
            found[budget] = Remainder(left[name], cap)
    if compute.ends_at_ms is not None:
        whole = max(0, compute.ends_at_ms - opened_at_ms)
        found[BudgetOf.WALL_CLOCK] = Remainder(max(0, compute.ends_at_ms - now_ms), whole)
    return found
