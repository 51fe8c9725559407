"""What the rules of a kind make of a result: the route that follows, and the facts taken from its receipt.

Asked inside the record, over the rules that were active at the ACCEPT.

Locks: the rows of facts are locked after flow and intent, by path, against the one order of `locks`. That
cannot deadlock: whoever else locks a fact's row locks only ledger heads after it, and heads are last
here too. Locking them first would need the receipt before the intent is known to be ours.
"""

from dataclasses import dataclass
from uuid import UUID

from audit import actors, canonical, events, ledger
from audit.models import LedgerEntry
from audit.payload_keys import PayloadClass
from runtime.contracts.outcome import Deviation, FactChange
from runtime.contracts.policy_kind import KindDocument, RouteAction
from runtime.contracts.receipt import CallResult, Receipt
from runtime.contracts.states import FeedbackType
from runtime.execution.services import re_engagement
from runtime.flows.models import Intent
from runtime.flows.queries import saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import outcomes, routes, step_checks, writes
from runtime.kernel.execution import Action, FinishedAttempt
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.outcomes import NamedOutcome
from runtime.kernel.routes import RouteChoice, Routed
from runtime.kernel.rules import safety
from runtime.kernel.step_checks import InvariantsAsked
from runtime.proposals.queries import stored_cases
from runtime.proposals.services import precondition_check
from runtime.registry.models import Agent
from runtime.state.models import FactVersion
from runtime.state.services import facts
from runtime.state.services.world_writes import WorldWrite


@dataclass(frozen=True, kw_only=True)
class RouteDecision:
    """What follows a result, and by which route; without one, what would have followed anyway."""

    action: Routed
    choice: RouteChoice
    case: Case | None = None


def choose_route(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    tried: FinishedAttempt,
    action: Action,
    jitter: float,
) -> RouteDecision:
    """What the kind's routes make of a result, by the rules of the verdict.

    Writes nothing: `record_route` does, after the attempt's own entry.
    """
    if not plan.is_followed or routes.result_of(tried, action) is None:
        return RouteDecision(action=action, choice=RouteChoice())
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    if safety.why_unsafe(case.kind):
        return RouteDecision(action=action, choice=RouteChoice())
    step, result = plan.step_id(intent.position), tried.result
    attempts, failures = intent.attempts, intent.failures
    unfit = _misfits(case.kind, step, result.body) if isinstance(result, Receipt) else ()
    came_to = routes.result_of(tried, action, deviates=bool(unfit))
    if came_to is None:
        return RouteDecision(action=action, choice=RouteChoice())
    names = {
        **case.names,
        "receipt": canonical.decode(result.body) if isinstance(result, Receipt) else {},
        "outcome": routes.outcome(
            result=result,
            step=step,
            attempts=attempts,
            failures=failures,
            deviation=str(unfit[0].severity) if unfit else "",
        ),
    }
    choice = routes.choose(
        case.kind.routes, names=names, result=came_to, fallbacks=plan.fallback_candidates(intent)
    )
    if choice.route is None:
        return RouteDecision(action=action, choice=choice)
    follows = routes.follow(
        choice.route, action=action, result=result, failures=failures, at=journal.at, jitter=jitter
    )
    return RouteDecision(action=follows, choice=choice, case=case)


def record_route(
    journal: Journal, intent: Intent, plan: IntentPlan, *, decided: RouteDecision, result: CallResult
) -> None:
    """Record the route that was taken and those that could not be asked; give the agent its advice."""
    choice, step = decided.choice, plan.step_id(intent.position)
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
        if route.clarify and decided.case is not None:
            re_engagement.request_clarification(
                journal, intent, plan, case=decided.case, result=result, advice=route.advice or ""
            )


def write_facts(journal: Journal, intent: Intent, plan: IntentPlan, *, receipt: bytes) -> None:
    """Write what the step at the intent's position takes from its receipt: a new version by `intent:<id>`.

    The rules are those of the verdict. Entries go to the flow's own stream; what cannot be written is
    recorded, and nothing else is lost by it.
    """
    if not plan.is_followed:
        return
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    step = plan.step_id(intent.position)
    asked = next((one.writes for one in case.kind.steps if one.id == step), ())
    if not asked:
        return
    if safety.why_unsafe(case.kind):
        taken = writes.take_none(asked, why=safety.NOT_ASKED)
    else:
        names = {**case.names, "receipt": canonical.decode(receipt)}
        taken = writes.take(asked, names=names, longest_bytes=facts.MAX_VALUE_BYTES)
    world = WorldWrite(tenant=intent.tenant, writer=writer_of(intent.pk), at=journal.at)
    for new in taken.facts:
        journal.add(world.put(new.path, new.value, current=facts.lock(tenant=intent.tenant, path=new.path)))
    for deviation in taken.deviations:
        journal.add(
            events.FactNotWritten(
                intent_id=str(intent.pk),
                path=deviation.fact,
                value=str(deviation.expected),
                why=deviation.why or "",
            )
        )


@dataclass(frozen=True, kw_only=True)
class CheckedReceipt:
    """What is wrong with the receipt of the step at hand. `fits` says that facts may be taken from it."""

    misfits: tuple[Deviation, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether no person is asked about its form."""
        return not any(item.calls_person for item in self.misfits)


def check_receipt(intent: Intent, plan: IntentPlan, *, receipt: bytes) -> CheckedReceipt:
    """Compare a forward step's receipt with its schema, by the rules of the verdict. Writes nothing."""
    if not plan.is_followed:
        return CheckedReceipt()
    kind = stored_cases.get_case(proposal_id=intent.proposal_id).kind
    return CheckedReceipt(misfits=_misfits(kind, plan.step_id(intent.position), receipt))


def record_misfits(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    checked: CheckedReceipt,
    *,
    receipt_commitment: str,
    asked: bool,
) -> None:
    """Record where a receipt does not fit, without what it holds there."""
    if not checked.misfits:
        return
    journal.add(
        events.ReceiptMisfit(
            intent_id=str(intent.pk),
            step=plan.step_id(intent.position),
            severity=str(checked.misfits[0].severity),
            pointers=tuple(item.fact for item in checked.misfits),
            receipt_commitment=receipt_commitment or None,
            asked=asked,
        )
    )


@dataclass(frozen=True, kw_only=True)
class AskedAfter:
    """The invariants that were asked after the last step, and those that did not hold, as deviations."""

    asked: InvariantsAsked
    deviations: tuple[Deviation, ...]


def find_after(journal: Journal, intent: Intent, plan: IntentPlan) -> AskedAfter | None:
    """Ask the invariants that must hold after the last step; None where there are none. Writes nothing."""
    if not plan.is_followed:
        return None
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    asked = precondition_check.ask_after(flow=journal.flow, case=case, at=journal.at)
    if asked is None:
        return None
    return AskedAfter(asked=asked, deviations=tuple(step_checks.after(case.kind, asked)))


def record_asked(journal: Journal, intent: Intent, plan: IntentPlan, asked: InvariantsAsked) -> None:
    """Record which invariants held at a place, and which did not."""
    journal.add(
        events.InvariantsChecked(
            intent_id=str(intent.pk),
            place=asked.place,
            step=plan.step_id(intent.position),
            held=asked.held,
            violated=asked.violated,
        )
    )


def list_misfits(intent: Intent, plan: IntentPlan, *, receipt: bytes | None) -> tuple[Deviation, ...]:
    """Where the receipts of the intent do not fit their schemas.

    `receipt` is what the outcome holds; without one, the receipts of the steps that are done are asked.
    """
    if not plan.is_followed:
        return ()
    kind = stored_cases.get_case(proposal_id=intent.proposal_id).kind
    by_step = saga_progress.receipts_of(intent)
    if receipt is not None and intent.steps == 1:
        by_step = {plan.step_id(0): canonical.decode(receipt)}
    return tuple(
        item
        for step in kind.steps
        if step.id in by_step
        for item in step_checks.misfits(step, by_step[step.id])
    )


def _misfits(kind: KindDocument, step: str, receipt: bytes) -> tuple[Deviation, ...]:
    asked = next((one for one in kind.steps if one.id == step), None)
    if asked is None or asked.receipt_schema is None or safety.why_unsafe(kind):
        return ()
    return tuple(step_checks.misfits(asked, canonical.decode(receipt)))


def name_outcome(intent: Intent, plan: IntentPlan, *, receipt: bytes) -> NamedOutcome | None:
    """What the kind's own `outcome` and `outputs` make of the receipts, by the rules of the verdict.

    `receipt` is what the outcome holds: one receipt, or `{step: receipt}`. None where the kind asks nothing.
    """
    if not plan.is_followed:
        return None
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    if not case.kind.asks_receipts:
        return None
    found = outcomes.receipts_of(receipt, steps=[step.step for step in plan.steps])
    return outcomes.ask(case.kind, names={**case.names, **found})


def record_name(
    journal: Journal, intent: Intent, named: NamedOutcome, *, receipt_commitment: str | None
) -> None:
    """Record what the receipts came to; the outputs are behind a commitment, so that they can be erased."""
    kept = None
    if named.outputs is not None:
        kept = ledger.commit_payload(
            tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=named.outputs
        )
    journal.add(
        events.OutcomeNamed(
            intent_id=str(intent.pk),
            outcome=named.outcome,
            outputs=named.output_names,
            outputs_commitment=kept,
            receipt_commitment=receipt_commitment,
            findings=tuple(
                events.OutcomeFinding(code=item.code or "", place=item.fact) for item in named.deviations
            ),
        )
    )


def writer_of(intent_id: UUID) -> str:
    """The writer of the facts that an intent's steps leave."""
    return f"intent:{intent_id}"


def collect_changes(
    journal: Journal, intent: Intent, plan: IntentPlan
) -> tuple[list[FactChange], list[Deviation]]:
    """What all steps of the intent have written, and what they could not: from the flow's entries.

    Those of this transaction are still in the journal.
    """
    if not plan.is_followed:
        return [], []
    kept = LedgerEntry.objects.filter(
        tenant=intent.tenant,
        stream=str(intent.flow_id),
        kind__in=(events.Kind.FACT_WRITTEN, events.Kind.FACT_NOT_WRITTEN),
    )
    earlier = [events.read(row.kind, row.payload) for row in kept.order_by("seq")]
    changes: list[FactChange] = []
    missed: list[Deviation] = []
    for event in (*earlier, *journal.entries):
        if isinstance(event, events.FactWritten) and event.writer == writer_of(intent.pk):
            versions = (event.version - 1, event.version)
            rows = FactVersion.objects.filter(tenant=intent.tenant, path=event.path, version__in=versions)
            values = {row.version: canonical.decode(bytes(row.value)) for row in rows}
            changes.append(
                FactChange(
                    fact=event.path,
                    version=event.version,
                    before=values.get(event.version - 1),
                    after=values[event.version],
                )
            )
        elif isinstance(event, events.FactNotWritten) and event.intent_id == str(intent.pk):
            missed.append(Deviation(fact=event.path, expected=event.value, observed=None, why=event.why))
    return changes, missed
