"""Routes after the call: asked inside the record, over the rules that were active at the ACCEPT."""

from dataclasses import dataclass

from audit import actors, canonical, events
from runtime.contracts.policy_kind import RouteAction
from runtime.contracts.receipt import Receipt
from runtime.contracts.states import FeedbackType
from runtime.execution.services import intent_plan, saga
from runtime.flows.models import Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import routes
from runtime.kernel.execution import Action, FinishedAttempt
from runtime.kernel.routes import RouteChoice, Routed
from runtime.kernel.rules import safety
from runtime.proposals.queries import stored_cases
from runtime.registry.models import Agent


@dataclass(frozen=True, kw_only=True)
class RouteDecision:
    """What follows a result, and by which route; without one, what would have followed anyway."""

    action: Routed
    choice: RouteChoice


def decide(
    journal: Journal,
    intent: Intent,
    *,
    tried: FinishedAttempt,
    action: Action,
    jitter: float,
) -> RouteDecision:
    """What the kind's routes make of a result, by the rules of the verdict.

    Writes nothing: `tell` does, after the attempt's own entry.
    """
    came_to = routes.result_of(tried, action)
    if came_to is None or not intent_plan.is_followed(intent):
        return RouteDecision(action=action, choice=RouteChoice())
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    if safety.why_unsafe(case.kind):
        return RouteDecision(action=action, choice=RouteChoice())
    step, result = intent_plan.step_id(intent, intent.position), tried.result
    attempts, failures = intent.attempts, intent.failures
    names = {
        **case.names,
        "receipt": canonical.decode(result.body) if isinstance(result, Receipt) else {},
        "outcome": routes.outcome(result=result, step=step, attempts=attempts, failures=failures),
    }
    choice = routes.choose(
        case.kind.routes, names=names, result=came_to, fallbacks=saga.fallback_candidates(intent)
    )
    if choice.route is None:
        return RouteDecision(action=action, choice=choice)
    follows = routes.follow(
        choice.route, action=action, result=result, failures=failures, at=journal.at, jitter=jitter
    )
    return RouteDecision(action=follows, choice=choice)


def tell(journal: Journal, intent: Intent, *, choice: RouteChoice) -> None:
    """Record the route that was taken and those that could not be asked; give the agent its advice."""
    step = intent_plan.step_id(intent, intent.position)
    for error in choice.errors:
        journal.add(
            events.RouteFailed(intent_id=str(intent.pk), step=step, route=error.number, why=error.message)
        )
    route = choice.route
    if route is None:
        return
    journal.add(
        events.RouteTaken(
            intent_id=str(intent.pk),
            step=step,
            route=choice.number,
            action=route.action,
            to_step=route.step,
        )
    )
    if route.action is RouteAction.RE_ENGAGE:
        body = {"intent_id": str(intent.pk), "step": step, "advice": route.advice or ""}
        journal.notify_agent(FeedbackType.RE_ENGAGEMENT_ADVICE, body)
        agent_id = Agent.objects.values_list("agent_id", flat=True).get(pk=journal.flow.agent_id)
        advised = events.AgentAdvised(agent_id=agent_id, dfid=str(journal.flow.dfid), **body)
        journal.record_on(actors.agent(agent_id), advised)
