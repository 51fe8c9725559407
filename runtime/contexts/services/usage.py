"""Usage: what an agent reports of its reasoning, and the hard stop at the cap (DIR paper, 9.3)."""

from datetime import datetime
from uuid import UUID

from audit import actors, canonical, events
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.facts import ComputeFacts
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ENDED, OPEN_TO_PROPOSALS, FeedbackType, FlowState
from runtime.core import clock, idempotency, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.flows.models import Flow
from runtime.flows.services import flow_cancellation, flows, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import budget_rules
from runtime.kernel.budget_rules import Overspent, Spent
from runtime.registry.models import Agent
from runtime.resources.queries import compute_left
from runtime.resources.services import compute


@transactions.retried
def report(
    *, agent: Agent, dfid: UUID, asked: api_schemas.UsageRequest, repeatable: IdempotentRequest | None = None
) -> api_schemas.UsageAnswer | Problem:
    """Add deltas to what a flow has used. Past a cap the flow is ABORTED and the answer is 429.

    The deltas that passed the cap are recorded too: they were used. With `repeatable`, a repeat of the call
    adds nothing and gets the same answer.
    """
    flow = locks.lock_own(agent=agent, dfid=dfid)
    if flow is None:
        return flows.not_found()
    if repeatable is not None:
        stored = idempotency.find_response(agent_pk=agent.pk, call=repeatable, makes="report", dfid=dfid)
        if isinstance(stored, bytes):
            kept = canonical.decode(stored)
            again = api_schemas.UsageAnswer.model_validate(kept["answer"])
            return _exceeded(flow, stopped=again.state in ENDED) if kept["refused"] else again
        if stored is not None:
            return stored
    if flow.state in ENDED:
        if flow.reason == Reason.BUDGET_EXCEEDED:
            return _exceeded(flow, stopped=True)
        return Problem(
            code=ProblemCode.FLOW_NOT_OPEN,
            detail=f"The flow is {flow.state} and has ended; report usage on an open flow.",
            dfid=str(flow.dfid),
        )
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    spent = _spend(asked, agent, journal)
    over = _passed(flow, spent, journal.at)
    stopped = bool(over) and _stop(journal, over)
    answer = api_schemas.UsageAnswer(state=str(flow.state), **compute_left.left_of(spent, at=journal.at))
    refusal = _exceeded(flow, stopped=stopped) if over else None
    if repeatable is not None:
        kept = {"refused": refusal is not None, "answer": api_schemas.plain(answer)}
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=canonical.encode(kept))
    journal.write()
    return refusal or answer


def stop_overdue(dfid: UUID) -> bool:
    """Abort a flow whose agent has run out of time, in the caller's transaction; for the sweeper."""
    flow = locks.lock_flow(dfid=dfid)
    if flow is None or flow.state not in OPEN_TO_PROPOSALS:
        return False
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    spent = compute_left.get_compute(flow)
    over = () if spent is None else _passed(flow, spent, journal.at)
    if not over or not _stop(journal, over):
        return False
    journal.write()
    return True


def _spend(asked: api_schemas.UsageRequest, agent: Agent, journal: Journal) -> ComputeFacts:
    """Add what is reported to what the flow has used, and record it."""
    cost_micros, tool_calls = budget_rules.micros(asked.cost_usd or "0"), asked.tool_calls or 0
    journal.add(
        events.UsageReported(
            tokens=asked.tokens,
            cost_usd=budget_rules.dollars(cost_micros) if cost_micros else None,
            tool_calls=tool_calls or None,
            model=None if asked.model is None else asked.model.model_dump(exclude_none=True) or None,
        )
    )
    return compute.spend(
        flow=journal.flow,
        agent=agent,
        at=journal.at,
        tokens=asked.tokens,
        cost_micros=cost_micros,
        tool_calls=tool_calls,
    )


def _passed(flow: Flow, spent: ComputeFacts, at: datetime) -> tuple[Overspent, ...]:
    """The limits that are exceeded. Time is the agent's own: it is paused while others have the flow."""
    found = budget_rules.overspent(
        spent, opened_at_ms=timestamps.to_ms(flow.opened_at), now_ms=timestamps.to_ms(at)
    )
    own_turn = flow.state in OPEN_TO_PROPOSALS
    return tuple(item for item in found if own_turn or item.what is not Spent.TIME)


def _stop(journal: Journal, over: tuple[Overspent, ...]) -> bool:
    """The hard stop; False where a worker has the intent already: its outcome will end the flow."""
    taken = flow_cancellation.cancel_pending_work(
        flow=journal.flow, reason=Reason.BUDGET_EXCEEDED, at=journal.at
    )
    if taken is None:
        return False
    journal.add(*taken)
    journal.transition(FlowState.ABORTED, reason=Reason.BUDGET_EXCEEDED)
    journal.notify_agent(
        FeedbackType.FLOW_ABORTED,
        {
            "reason": Reason.BUDGET_EXCEEDED.value,
            "details": [
                {"bound": item.what.value, "proposed_value": item.used, "limit": item.cap} for item in over
            ],
        },
    )
    return True


def _exceeded(flow: Flow, *, stopped: bool) -> Problem:
    detail = (
        "The flow exceeded its compute budget and is ABORTED. Open a new flow."
        if stopped
        else "The flow exceeded its compute budget. Its call is in progress: read its feedback."
    )
    return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail, dfid=str(flow.dfid))
