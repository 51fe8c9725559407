"""Intake: the whole story of a proposal on one page.

Lock the flow and the agent, judge, write what follows from the verdict, append to the ledger, commit, ring.
"""

from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from audit import actors, canonical
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import OPEN_TO_PROPOSALS, Decision, FlowState
from runtime.core import clock, idempotency, ports, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.proposals.queries import gate_facts
from runtime.proposals.services import apply_verdict, judging
from runtime.registry.models import Session
from runtime.registry.services import agents


@dataclass(frozen=True)
class Answered:
    """A decided answer: canonical bytes, the same for every repeat of the call."""

    body: bytes


def submit(
    *,
    session: Session,
    dfid: UUID,
    envelope: ProposalEnvelope,
    body: bytes,
    idempotency_key: str,
    path: str,
) -> Answered | Problem:
    """Judge a proposal and store everything that follows, in one transaction.

    Returns the stored answer for a repeated key, a Problem for what costs no attempt (unknown flow, flow
    not open, key used for another body). Raises `transactions.BusyError` after three lost races.
    """
    repeatable = IdempotentRequest(key=idempotency_key, path=path, body=body)

    def work() -> Answered | Problem:
        flow = locks.lock_flow(dfid=dfid, tenant=session.agent.tenant)
        if flow is None or flow.agent_id != session.agent_id:
            return Problem(code=ProblemCode.FLOW_NOT_FOUND, detail="No flow of this agent has this DFID.")
        refused = epochs.refuse_proposal(flow)
        if refused is not None:
            return refused
        stored = idempotency.find_response(
            agent_pk=flow.agent_id, call=repeatable, makes="proposal", dfid=flow.dfid
        )
        if stored is not None:
            return Answered(body=stored) if isinstance(stored, bytes) else stored
        if flow.state not in OPEN_TO_PROPOSALS:
            said = f"The flow is {flow.state} and accepts no proposals."
            return Problem(
                code=ProblemCode.FLOW_NOT_OPEN,
                detail=f"{said} Read its feedback or open a new flow.",
                dfid=str(flow.dfid),
            )
        return Answered(body=_decide(flow=flow, session=session, asked=envelope, repeatable=repeatable))

    return transactions.retry_on_conflict(work)


def _decide(*, flow: Flow, session: Session, asked: ProposalEnvelope, repeatable: IdempotentRequest) -> bytes:
    agent = agents.lock_by_pk(pk=flow.agent_id)
    at = clock.now()
    claim = judging.ProposalDraft(
        author=actors.agent(agent.agent_id),
        by_person=False,
        policy_kind=asked.policy_kind,
        policy_version=asked.policy_version,
        params=asked.params,
        execution_constraints=dict(asked.execution_constraints),
        context_ref=asked.context_ref,
        snapshot=gate_facts.get_snapshot(flow=flow, context_ref=asked.context_ref),
        window_s=asked.execution_constraints["validity_window_sec"],
        # Asked again under the locks: a key may have been revoked since the call was let in.
        session_valid=Session.objects.filter(
            pk=session.pk, expires_at__gt=at, key__revoked_at__isnull=True
        ).exists(),
        confidence=asked.confidence,
        explain=asked.explain or "",
        human_review_required=bool(asked.human_review_required),
        expected_effects=asked.expected_effects,
    )
    journal = Journal(flow=flow, actor=claim.author, at=at)
    judged = judging.judge(flow=flow, agent=agent, claim=claim, at=journal.at)
    flow.policy_kind = asked.policy_kind
    journal.transition(FlowState.VALIDATING)
    journal.add(*judging.store(judged))
    ports.queue_guards(proposal=judged.proposal, at=journal.at)
    match judged.verdict.decision:
        case Decision.ACCEPT:
            follow = apply_verdict.accept(journal=journal, judged=judged)
        case Decision.REJECT:
            follow = apply_verdict.reject(journal=journal, judged=judged, agent=agent)
        case Decision.ESCALATE:
            follow = apply_verdict.escalate(journal=journal, judged=judged, agent=agent)
        case _:
            assert_never(judged.verdict.decision)
    journal.write()
    body = canonical.encode(apply_verdict.answer(judged=judged, flow=flow, follow=follow))
    idempotency.store_response(agent_pk=agent.pk, call=repeatable, body=body, at=journal.at)
    return body
