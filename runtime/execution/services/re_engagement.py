"""What an agent is asked after a result that its plan did not foresee: all that it needs to propose again."""

from typing import Any

from runtime.contracts.receipt import CallResult, Failure
from runtime.contracts.states import FeedbackType
from runtime.flows.models import Intent
from runtime.flows.queries import saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import budget_rules
from runtime.kernel.gate.gate_input import Case
from runtime.proposals.queries import gate_facts


def request_clarification(
    journal: Journal, intent: Intent, plan: IntentPlan, *, case: Case, result: CallResult, advice: str
) -> None:
    """Ask the agent what shall happen now. `case` is that of the verdict; budgets are those of now.

    The flow takes its course meanwhile: an answer is a new proposal, in a flow that is open.
    """
    failure = result if isinstance(result, Failure) else None
    known = gate_facts.get_facts_of_now(
        flow=journal.flow,
        agent=journal.flow.agent,
        rules=case.rules,
        params=case.proposal.params,
        at=journal.at,
    )
    kind = case.kind
    budget: dict[str, Any] = {
        "escalation_tokens": known.escalation_tokens,
        **budget_rules.left(known.compute),
    }
    journal.notify_agent(
        FeedbackType.CLARIFICATION_REQUEST,
        {
            "decision_id": str(intent.proposal_id),
            "intent_id": str(intent.pk),
            "failure_reason": {
                "step": plan.step_id(intent.position),
                "category": None if failure is None else failure.category.value,
                "status_code": result.status_code,
                "advice": advice,
            },
            "current_state": {
                "flow": journal.flow.state,
                "effect": saga_progress.get_effect(proposals={intent.proposal_id}).value,
                "steps_done": list(plan.step_ids(saga_progress.progress_of(intent).standing)),
            },
            "options": [
                {"action": "PROPOSE", "policy_kind": kind.kind, "policy_version": kind.version},
                {"action": "LEAVE"},
            ],
            "remaining_budget": budget,
            "schema": dict(kind.params_schema),
        },
    )
