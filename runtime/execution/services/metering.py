"""Metering: what calls have used, as the answers of targets say it and not the agent (DARE, tool gateway)."""

from audit import canonical, events
from runtime.contracts.receipt import CallResult, Receipt
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import budget_rules, metering
from runtime.resources.services import compute


def charge(journal: Journal, intent: Intent, plan: IntentPlan, attempt: Attempt, result: CallResult) -> None:
    """Count what an answer says for the budget of its flow, where the step has a meter.

    What is over the budget by that was used: the intent goes on, and the gate refuses what the agent proposes
    in the flow from then on.
    """
    call = plan.current(intent)
    if call is None or call.step.meter is None or not isinstance(result, Receipt):
        return
    used = metering.measure(
        call.step.meter, status_code=result.status_code, body=canonical.decode(result.body)
    )
    flow = journal.flow
    if used.tokens or used.cost_micros:
        compute.spend(
            flow=flow,
            agent=flow.agent,
            at=journal.at,
            tokens=used.tokens,
            cost_micros=used.cost_micros,
            target=call.step.target,
        )
    journal.add(
        events.UsageReported(
            tokens=used.tokens,
            cost_usd=budget_rules.dollars(used.cost_micros) if used.cost_micros else None,
            intent_id=str(intent.pk),
            number=attempt.number,
            unread=used.unread,
        )
    )
