"""Intake: the whole story of a proposal on one page.

Lock the flow and the agent, judge, write what follows from the verdict, append to the ledger, commit, ring.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from audit import actors, canonical
from runtime.advice.queries import packages
from runtime.contracts import timestamps
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.facts import SnapshotFacts
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import OPEN_TO_PROPOSALS, Decision, FlowState
from runtime.core import clock, idempotency, ports, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.core.ids import new_id
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.services import flows, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.workflows import steps
from runtime.proposals.queries import caller_facts, gate_facts
from runtime.proposals.queries.caller_facts import CallerFacts
from runtime.proposals.queries.gate_facts import AlreadyRead
from runtime.proposals.services import apply_verdict, judging, proposal_signatures
from runtime.proposals.services.proposal_signatures import Signed
from runtime.registry.models import Agent, Session
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents, credentials
from runtime.workflows.services import positions


@dataclass(frozen=True)
class Answered:
    """A decided answer: canonical bytes, the same for every repeat of the call."""

    body: bytes


@transactions.retried
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
    flow = locks.lock_own(agent=session.agent, dfid=dfid)
    if flow is None:
        return flows.not_found()
    refused = epochs.refuse_proposal(flow)
    if refused is not None:
        return refused
    call = IdempotentRequest(key=idempotency_key, path=path, body=body)
    agent = agents.lock_of(session)
    caller = caller_facts.look(session=session, agent=agent, call=call)
    stored = find_answer(caller, agent=agent, call=call, dfid=flow.dfid)
    if stored is not None:
        return stored
    refused = refuse_unless_open(flow)
    if refused is not None:
        return refused
    refused = packages.refuse_unknown(flow=flow, decision_id=envelope.decision_id)
    if refused is not None:
        return refused
    signed = proposal_signatures.verify(agent=agent, envelope=envelope, call=call)
    if isinstance(signed, Problem):
        return signed
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    snapshot = gate_facts.get_snapshot(flow=flow, context_ref=envelope.context_ref)
    return decide(
        journal=journal,
        agent=agent,
        session=session,
        case=Submitted(
            envelope=envelope,
            snapshot=snapshot,
            signed=signed,
            caller=caller,
            read=AlreadyRead(level=caller.level),
        ),
        call=call,
    )


def find_answer(
    caller: CallerFacts, *, agent: Agent, call: IdempotentRequest, dfid: UUID | None
) -> Answered | Problem | None:
    """What `idempotency.find_response` says of a repeated proposal; the others ask no database."""
    if not caller.is_answered:
        return None
    stored = idempotency.find_response(agent_pk=agent.pk, call=call, makes="proposal", dfid=dfid)
    return Answered(body=stored) if isinstance(stored, bytes) else stored


def refuse_unless_open(flow: Flow) -> Problem | None:
    """409 for a flow that takes no proposal: it has ended, waits for a person, or is being executed."""
    if flow.state in OPEN_TO_PROPOSALS:
        return None
    said = f"The flow is {flow.state} and accepts no proposals."
    return Problem(
        code=ProblemCode.FLOW_NOT_OPEN,
        detail=f"{said} Read its feedback or open a new flow.",
        dfid=str(flow.dfid),
    )


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A proposal, and what it stands on; `signed` where its agent has to sign it.

    `caller` was asked under the lock of its agent. `context_ref` names a context that was compiled with it,
    and `seen` what its snapshot was made of instead. `read` and `counts_other_flows` are those of
    `judging.judge`.
    """

    envelope: ProposalEnvelope
    snapshot: SnapshotFacts | None
    signed: Signed | None
    caller: CallerFacts
    context_ref: str | None = None
    seen: Mapping[str, int] | None = None
    read: AlreadyRead
    counts_other_flows: bool = False


def decide(
    *, journal: Journal, agent: Agent, session: Session, case: Submitted, call: IdempotentRequest
) -> Answered:
    """Judge, store what follows and the answer to the call, and write the journal.

    The caller holds the locks of the flow, which is open, and of the agent.
    """
    flow, envelope = journal.flow, case.envelope
    judged = judging.judge(
        flow=flow,
        agent=agent,
        document=ProposalDocument.from_envelope(
            envelope,
            proposal_id=str(new_id()),
            intent_id=str(new_id()),
            dfid=str(flow.dfid),
            tenant=flow.tenant,
            author=journal.actor,
            received_at_ms=timestamps.to_ms(journal.at),
            context_ref=case.context_ref,
            seen=case.seen,
            salt=secrets.token_hex(16),
        ),
        snapshot=case.snapshot,
        # Asked again under the locks: a key may have been revoked since the call was let in.
        session_valid=case.caller.is_session_valid(journal.at)
        and credentials.fits_environment(session.key, granted_kinds.manifest_of(agent)),
        explain=envelope.explain or "",
        read=case.read,
        counts_other_flows=case.counts_other_flows,
    )
    flow.policy_kind = envelope.policy_kind
    journal.transition(FlowState.VALIDATING)
    judging.store(judged, journal, signed=case.signed)
    if judged.followed is not None and judged.verdict.decision is not Decision.REJECT:
        step = positions.Report(instruction=steps.PROPOSE, input=judged.document.params, output={})
        positions.take(journal, judged.followed, step)
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
    answer = canonical.encode(apply_verdict.answer(judged=judged, flow=flow, follow=follow))
    journal.keep_answer(agent_pk=agent.pk, call=call, body=answer)
    journal.write()
    return Answered(body=answer)
