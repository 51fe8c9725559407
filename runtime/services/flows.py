"""Flows from the agent's side: open one, withdraw it, close it (DIR paper, 4)."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import canonical, events, ledger
from runtime import ports
from runtime.contracts import wire
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import (
    ENDED,
    LIVE_INTENTS,
    OPEN_TO_PROPOSALS,
    AttemptState,
    FeedbackType,
    FlowState,
    IntentState,
)
from runtime.models import Agent, Answer, Flow, Intent
from runtime.queries import clock, schemas
from runtime.services import budgets, locks, races
from runtime.services.journal import Journal

DEFAULT_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class Repeatable:
    """The Idempotency-Key of a call, its path, and the canonical bytes of its body."""

    key: str
    path: str
    body: bytes


def open_flow(
    *, agent: Agent, trigger: Any, traceparent: str = "", repeatable: Repeatable | None = None
) -> wire.FlowState | Problem:
    """Open a flow of `agent`. `trigger` is plain JSON; the ledger holds a commitment to it.

    With `repeatable`, a repeat of the call gets the same flow, and another body under the same key 422.
    """

    def work() -> wire.FlowState | Problem:
        if repeatable is None:
            return _open(agent, trigger, traceparent)
        # The agent's lock lets only one of fifty equal calls through at a time: the rest find its answer.
        locks.lock_agent(pk=agent.pk)
        stored = Answer.objects.filter(agent=agent, path=repeatable.path, key=repeatable.key).first()
        if stored is not None:
            return _repeat(stored, repeatable)
        opened = _open(agent, trigger, traceparent)
        Answer.objects.create(
            agent=agent,
            path=repeatable.path,
            key=repeatable.key,
            request_digest=canonical.digest(repeatable.body),
            body=canonical.encode(wire.plain(opened)),
            answered_at=clock.now(),
        )
        return opened

    return races.run(work)


def cancel(*, agent: Agent, dfid: UUID, reason: str) -> wire.FlowState | Problem:
    """Withdraw a flow: allowed until a worker has claimed its intent, then 409 (10, "Locks and races")."""

    def work() -> wire.FlowState | Problem:
        flow = locks.lock_flow(dfid=dfid, tenant=agent.tenant)
        refusal = _not_open(flow, agent)
        if refusal is not None or flow is None:
            return refusal or not_found()
        intent = Intent.objects.select_for_update().filter(flow=flow, state__in=LIVE_INTENTS).first()
        if intent is not None and _is_claimed(intent):
            return Problem(
                status=409,
                code="ALREADY_CLAIMED",
                detail="The intent is already being carried out. Read the feedback for its outcome.",
                dfid=str(dfid),
            )
        journal = Journal(flow=flow, actor=f"agent:{agent.agent_id}", at=clock.now())
        if intent is not None:
            _cancel_intent(intent, journal)
        journal.add(*ports.close_escalations(flow=flow, at=journal.at))
        journal.move(FlowState.ABORTED, reason=Reason.CANCELLED_BY_AGENT)
        journal.tell(FeedbackType.FLOW_ABORTED, {"reason": Reason.CANCELLED_BY_AGENT, "detail": reason})
        journal.write()
        return _state(flow)

    return races.run(work)


def close(*, agent: Agent, dfid: UUID, reason: str) -> wire.FlowState | Problem:
    """Close a flow that only read, or that has nothing left to propose: from CREATED or ACTIVE."""

    def work() -> wire.FlowState | Problem:
        flow = locks.lock_flow(dfid=dfid, tenant=agent.tenant)
        refusal = _not_open(flow, agent)
        if refusal is not None or flow is None:
            return refusal or not_found()
        if flow.state not in OPEN_TO_PROPOSALS:
            return Problem(
                status=409,
                code="FLOW_NOT_OPEN",
                detail=f"The flow is {flow.state}: it closes by itself, or cancel it while that is possible.",
                dfid=str(dfid),
            )
        journal = Journal(flow=flow, actor=f"agent:{agent.agent_id}", at=clock.now())
        journal.move(FlowState.CLOSED)
        journal.tell(FeedbackType.FLOW_CLOSED, {"reason": "", "detail": reason})
        journal.write()
        return _state(flow)

    return races.run(work)


def not_found() -> Problem:
    """An unknown flow and another agent's flow look the same."""
    return Problem(status=404, code="FLOW_NOT_FOUND", detail="No flow of this agent has this DFID.")


def _open(agent: Agent, trigger: Any, traceparent: str) -> wire.FlowState:
    at = clock.now()
    body = canonical.encode(trigger)
    manifest = schemas.manifest_of(agent)
    flow = Flow.objects.create(
        tenant=agent.tenant,
        agent=agent,
        trigger=body,
        traceparent=traceparent,
        attempts_allowed=DEFAULT_ATTEMPTS if manifest is None else manifest.max_intent_retries,
        opened_at=at,
        updated_at=at,
    )
    budgets.open_for(flow=flow, manifest=manifest)
    journal = Journal(flow=flow, actor=f"agent:{agent.agent_id}", at=at)
    journal.add(
        events.FlowOpened(
            agent_id=agent.agent_id,
            trigger_commitment=ledger.commit_payload(tenant=agent.tenant, body=body),
            traceparent=traceparent or None,
        )
    )
    journal.write()
    return _state(flow)


def _repeat(stored: Answer, repeatable: Repeatable) -> wire.FlowState | Problem:
    if stored.request_digest != canonical.digest(repeatable.body):
        return Problem(
            status=422,
            code="IDEMPOTENCY_KEY_REUSED",
            detail="This Idempotency-Key was used with another body. Use a new key for a new flow.",
        )
    return wire.FlowState.model_validate_json(bytes(stored.body))


def _not_open(flow: Flow | None, agent: Agent) -> Problem | None:
    if flow is None or flow.agent_id != agent.pk:
        return not_found()
    if flow.state in ENDED:
        return Problem(
            status=409,
            code="FLOW_NOT_OPEN",
            detail=f"The flow is {flow.state}; nothing can follow. Open a new flow.",
            dfid=str(flow.dfid),
        )
    return None


def _is_claimed(intent: Intent) -> bool:
    if intent.state != IntentState.PENDING:
        return True
    # Waiting for its next try counts as claimed; an attempt that was only held never left the house.
    return intent.attempt_rows.exclude(state=AttemptState.HELD).exists()


def _cancel_intent(intent: Intent, journal: Journal) -> None:
    intent.state, intent.finished_at = IntentState.CANCELLED, journal.at
    intent.save(update_fields=["state", "finished_at"])
    journal.add(events.IntentCancelled(intent_id=str(intent.intent_id), reason=Reason.CANCELLED_BY_AGENT))


def _state(flow: Flow) -> wire.FlowState:
    return wire.FlowState(dfid=str(flow.dfid), state=str(flow.state))
