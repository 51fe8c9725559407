"""Flows from the agent's side: open one, withdraw it, close it (DIR paper, 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import actors, canonical, events, ledger, statements
from audit.payload_keys import PayloadClass
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ENDED, OPEN_TO_PROPOSALS, FeedbackType, FlowState
from runtime.core import clock, idempotency, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.services import delegation, flow_cancellation, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent, Session
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.resources.services import budgets

DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowClaims:
    """What is said of a new flow: where it runs, by its key or by the agent, and for which user it acts."""

    environment: str = ""
    environment_of_key: bool = False
    delegated_user_id: str | None = None

    @classmethod
    def of(cls, session: Session, *, delegated_user_id: str | None) -> "FlowClaims":
        """Those of a flow that is opened in a session."""
        return cls(
            environment=session.environment,
            environment_of_key=bool(session.key.environment),
            delegated_user_id=delegated_user_id,
        )


def begin_no_more(journal: Journal) -> None:
    """A flow with which nothing else begins."""


@transactions.retried
def open_flow(
    *,
    agent: Agent,
    trigger: Any,
    traceparent: str = "",
    parent_dfid: UUID | None = None,
    claims: FlowClaims = FlowClaims(),
    repeatable: IdempotentRequest | None = None,
    also_begin: Callable[[Journal], None] = begin_no_more,
) -> api_schemas.FlowState | Problem:
    """Open a flow of `agent`. `trigger` is plain JSON; the ledger holds a commitment to it.

    `also_begin` adds what else begins with it to the journal, in the same transaction.

    With `parent_dfid` it is a child, which ends with its parent at the latest: 404 where the parent's agent
    does not delegate to this one, 409 where the parent has ended or the family is as large as it may be.
    With `repeatable`, a repeat of the call gets the same flow, and another body under the same key 422.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    # Flows before agents, in the order of locks.
    parent = None if parent_dfid is None else delegation.lock_parent(dfid=parent_dfid, tenant=agent.tenant)
    if repeatable is not None:
        # The agent's lock lets only one of fifty equal calls through at a time: the rest find its answer.
        agents.lock_by_pk(pk=agent.pk)
        stored = idempotency.find_response(agent_pk=agent.pk, call=repeatable, makes="flow")
        if stored is not None:
            return api_schemas.FlowState.model_validate_json(stored) if isinstance(stored, bytes) else stored
    refused = None if parent_dfid is None else delegation.refuse(parent=parent, agent=agent)
    if refused is not None:
        return refused
    journal = begin(agent=agent, trigger=trigger, traceparent=traceparent, parent=parent, claims=claims)
    also_begin(journal)
    opened = _state(journal.flow)
    if repeatable is not None:
        body = canonical.encode(api_schemas.plain(opened))
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=body)
    journal.write()
    if parent is not None:
        delegation.record(parent=parent, child=journal.flow)
    return opened


def begin(
    *, agent: Agent, trigger: Any, traceparent: str, parent: Flow | None, claims: FlowClaims = FlowClaims()
) -> Journal:
    """The journal of a new flow of `agent`, with the entry of its opening; the caller writes it.

    `parent` is locked, and may have this child; once the journal is written, `delegation.record` tells it.
    """
    manifest = granted_kinds.manifest_of(agent)
    at = clock.now()
    flow = Flow(
        tenant=agent.tenant,
        agent=agent,
        parent=parent,
        root_id=None if parent is None else parent.root_id or parent.pk,
        delegator_id=None if parent is None else parent.agent_id,
        depth=0 if parent is None else parent.depth + 1,
        trigger=canonical.encode(trigger),
        traceparent=traceparent,
        attempts_allowed=manifest.max_intent_retries if manifest else DEFAULT_ATTEMPTS,
        opened_at=at,
        updated_at=at,
    )
    flow.is_new = True
    statements.insert([flow])
    budgets.open_for(flow=flow, manifest=manifest)
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=flow.opened_at)
    journal.add(
        events.FlowOpened(
            agent_id=agent.agent_id,
            trigger_commitment=ledger.commit_payload(
                tenant=flow.tenant, data_class=PayloadClass.PARAMETERS, body=bytes(flow.trigger)
            ),
            parent_dfid=None if parent is None else str(parent.pk),
            traceparent=traceparent or None,
            environment=claims.environment,
            environment_of_key=claims.environment_of_key,
            delegated_user_id=claims.delegated_user_id,
            told_recorded=True,
        )
    )
    return journal


@transactions.retried
def cancel(*, agent: Agent, dfid: UUID, reason: str) -> api_schemas.FlowState | Problem:
    """Withdraw a flow: allowed until a worker has claimed its intent, then 409."""
    flow = lock_open(agent=agent, dfid=dfid)
    if isinstance(flow, Problem):
        return flow
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    taken_back = flow_cancellation.cancel_pending_work(
        flow=flow, reason=Reason.CANCELLED_BY_AGENT, at=journal.at
    )
    if taken_back is None:
        return Problem(
            code=ProblemCode.ALREADY_CLAIMED,
            detail="The intent is already being executed. Read the feedback for its outcome.",
            dfid=str(dfid),
        )
    journal.add(*taken_back)
    journal.transition(FlowState.ABORTED, reason=Reason.CANCELLED_BY_AGENT)
    journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": Reason.CANCELLED_BY_AGENT, "detail": reason})
    journal.write()
    return _state(flow)


@transactions.retried
def close(*, agent: Agent, dfid: UUID, reason: str) -> api_schemas.FlowState | Problem:
    """Close a flow that only read, or that has nothing left to propose: from CREATED or ACTIVE."""
    flow = lock_open(agent=agent, dfid=dfid)
    if isinstance(flow, Problem):
        return flow
    if flow.state not in OPEN_TO_PROPOSALS:
        return Problem(
            code=ProblemCode.FLOW_NOT_OPEN,
            detail=f"The flow is {flow.state}: it closes by itself, or cancel it while that is possible.",
            dfid=str(dfid),
        )
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    journal.transition(FlowState.CLOSED)
    journal.notify_agent(FeedbackType.FLOW_CLOSED, {"reason": "", "detail": reason})
    journal.write()
    return _state(flow)


def not_found() -> Problem:
    """An unknown flow and another agent's flow look the same."""
    return Problem(code=ProblemCode.FLOW_NOT_FOUND, detail="No flow of this agent has this DFID.")


def lock_open(
    *, agent: Agent, dfid: UUID, once_ended: str = ": it has ended. Open a new flow."
) -> Flow | Problem:
    """A flow of the agent that has not ended, locked.

    404 for a flow that is not the agent's; 409 FLOW_NOT_OPEN with the flow's state and `once_ended`.
    """
    flow = locks.lock_own(agent=agent, dfid=dfid)
    if flow is None:
        return not_found()
    return refuse_ended(flow, once_ended=once_ended) or flow


def refuse_ended(flow: Flow, *, once_ended: str) -> Problem | None:
    """409 FLOW_NOT_OPEN with the flow's state and `once_ended`; None for a flow that has not ended."""
    if flow.state not in ENDED:
        return None
    return Problem(
        code=ProblemCode.FLOW_NOT_OPEN,
        detail=f"The flow is {flow.state}{once_ended}",
        dfid=str(flow.dfid),
    )


def lock_for_call(
    *, agent: Agent, dfid: UUID, call: IdempotentRequest | None, makes: str, once_ended: str
) -> Flow | bytes | Problem:
    """`lock_open` for a call that may be repeated: then the first answer, also once the flow has ended."""
    flow = locks.lock_own(agent=agent, dfid=dfid)
    if flow is None:
        return not_found()
    if call is not None:
        # The flow's lock lets one of several equal calls through at a time: the rest find its answer.
        stored = idempotency.find_response(agent_pk=agent.pk, call=call, makes=makes, dfid=flow.dfid)
        if stored is not None:
            return stored
    return refuse_ended(flow, once_ended=once_ended) or flow


def _state(flow: Flow) -> api_schemas.FlowState:
    return api_schemas.FlowState(dfid=str(flow.dfid), state=str(flow.state))
