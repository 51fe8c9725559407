"""One governed action in one call: open the flow, compile the context, judge; all of it or nothing.

The same services do it as for the three calls, and their entries come in the same order.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, statements
from runtime.advice.queries import packages
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.envelope import ProposalCall
from runtime.contracts.facts import SnapshotFacts
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, idempotency, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.services import delegation, flows, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.proposals.queries import caller_facts, gate_facts
from runtime.proposals.queries.caller_facts import CallerFacts
from runtime.proposals.queries.gate_facts import AlreadyRead
from runtime.proposals.services import intake, proposal_signatures
from runtime.proposals.services.intake import Answered, Submitted
from runtime.registry.models import Agent, PolicyKind, Session
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.state.queries import visible_facts
from runtime.state.queries.visible_facts import LiveFacts

UNSAID_TRIGGER: Final = "proposed in one call"


@transactions.retried
def submit(
    *, session: Session, asked: ProposalCall, call: IdempotentRequest, traceparent: str = ""
) -> Answered | Problem:
    """Judge a proposal on a context of its own, in a new flow or in the one that it names.

    Returns the stored answer for a repeated key, and a Problem for what costs no attempt and stores nothing:
    that of `intake.submit` or of `flows.open_flow`, or 422 CONTEXT_REQUIRED. Raises
    `transactions.BusyError` after three lost races.
    """
    with statements.together():
        return _submit(session, asked, call, traceparent)


def _submit(
    session: Session, asked: ProposalCall, call: IdempotentRequest, traceparent: str
) -> Answered | Problem:
    flow = None if asked.dfid is None else _lock_flow(session.agent, asked.dfid)
    if isinstance(flow, Problem):
        return flow
    parent = None if flow is not None else _lock_parent(session.agent, asked)
    # Only one of fifty equal calls comes through at a time: the rest find its answer.
    agent = agents.lock_of(session)
    caller = caller_facts.look(session=session, agent=agent, call=call)
    refused = epochs.refuse_while_recovering(is_recovering=caller.is_recovering)
    if refused is not None:
        return refused
    dfid = None if flow is None else flow.dfid
    stored = intake.find_answer(caller, agent=agent, call=call, dfid=dfid)
    if stored is not None:
        return stored
    signed = proposal_signatures.verify(agent=agent, envelope=asked, call=call)
    if isinstance(signed, Problem):
        return signed
    kinds = _list_kinds(asked, agent)
    compared = gate_facts.compare_rules(agent=agent, kind_name=asked.policy_kind, kinds=kinds)
    refused = _refuse_flow(asked, flow=flow, parent=parent, agent=agent) or _refuse_context(
        asked, compared[0].kind
    )
    if refused is not None:
        return refused
    journal = (
        flows.begin(
            agent=agent,
            trigger=_trigger(asked),
            traceparent=traceparent,
            parent=parent,
            claims=flows.FlowClaims.of(session, delegated_user_id=asked.delegated_user_id),
        )
        if flow is None
        else Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    )
    read = AlreadyRead(compared=compared, level=caller.level)
    if asked.context_ref is not None:
        snapshot = gate_facts.get_snapshot(flow=journal.flow, context_ref=asked.context_ref)
        case = Submitted(
            envelope=asked,
            snapshot=snapshot,
            signed=signed,
            caller=caller,
            read=read,
            counts_other_flows=flow is None,
        )
    else:
        visible, world = _read_facts(asked, agent=agent, kinds=kinds, rules=compared[0], caller=caller)
        frozen = contexts.freeze(journal, agent, visible=visible)
        case = Submitted(
            envelope=asked,
            snapshot=_seen(asked, frozen, journal),
            signed=signed,
            caller=caller,
            context_ref=frozen.context_ref,
            seen=asked.seen,
            read=replace(read, world=world),
            counts_other_flows=flow is None,
        )
    answer = intake.decide(journal=journal, agent=agent, session=session, case=case, call=call)
    if parent is not None:
        delegation.record(parent=parent, child=journal.flow)
    return answer


@transactions.retried
def claim_batch(*, session: Session, call: IdempotentRequest, count: int) -> Problem | None:
    """Keep what a batch of `count` proposals asks, before any of it is judged; 422 for another under its key.

    Its proposals have their answers by themselves, so a repeat goes on where a crash has ended the first.
    """
    agents.lock_by_pk(pk=session.agent_id)
    stored = idempotency.find_response(agent_pk=session.agent_id, call=call, makes="batch")
    if stored is None:
        body = canonical.encode({"proposals": count})
        idempotency.claim_key(agent_pk=session.agent_id, call=call, body=body, at=clock.now())
    return stored if isinstance(stored, Problem) else None


def _lock_flow(agent: Agent, named: str) -> Flow | Problem:
    """The flow of a further try."""
    dfid = api_schemas.uuid_of(named)
    flow = None if dfid is None else locks.lock_own(agent=agent, dfid=dfid)
    if flow is None:
        return flows.not_found()
    return epochs.refuse_proposal(flow) or flow


def _lock_parent(agent: Agent, asked: ProposalCall) -> Flow | None:
    """The parent of a new flow."""
    if asked.parent_dfid is None:
        return None
    return delegation.lock_parent(dfid=UUID(asked.parent_dfid), tenant=agent.tenant)


def _refuse_flow(
    asked: ProposalCall, *, flow: Flow | None, parent: Flow | None, agent: Agent
) -> Problem | None:
    if flow is not None:
        return intake.refuse_unless_open(flow) or packages.refuse_unknown(
            flow=flow, decision_id=asked.decision_id
        )
    if asked.decision_id is not None:
        detail = "A new flow has no decision package. Name the flow that it is of by its dfid."
        return Problem(code=ProblemCode.DECISION_NOT_FOUND, detail=detail)
    return None if asked.parent_dfid is None else delegation.refuse(parent=parent, agent=agent)


def _list_kinds(asked: ProposalCall, agent: Agent) -> list[PolicyKind]:
    """The active kind of the proposal, and those of the context where one will be compiled with it."""
    own = frozenset({asked.policy_kind})
    if asked.context_ref is not None:
        return granted_kinds.list_active(tenant=agent.tenant, names=own)
    return granted_kinds.list_granted(agent, also=own)


def _read_facts(
    asked: ProposalCall,
    *,
    agent: Agent,
    kinds: Sequence[PolicyKind],
    rules: PolicyBundle,
    caller: CallerFacts,
) -> tuple[contexts.Visible, LiveFacts]:
    """What the agent may see, and the facts that the gate asks for; the facts of both in one statement."""
    granted = granted_kinds.granted(agent)
    own = [kind for kind in kinds if kind.kind in granted]
    selected = visible_facts.selectors(agent=agent, kinds=own)
    beside = gate_facts.feature_sources(rules)
    judged_on = (
        frozenset()
        if rules.kind is None
        else gate_facts.list_selectors(kind=rules.kind, params=asked.params, conditions=beside)
    )
    live = visible_facts.read_live(tenant=agent.tenant, selected=judged_on.union(selected))
    visible = contexts.Visible(
        kinds=own, selected=selected, facts=live.under(selected), has_artifacts=caller.has_artifacts
    )
    return visible, live.under(judged_on)


def _refuse_context(asked: ProposalCall, kind: KindDocument | None) -> Problem | None:
    """422 where the proposal stands on nothing, or on what nobody has looked at and its kind asks for more.

    A kind that is not there is for the gate to reject.
    """
    if asked.context_ref is not None:
        return None
    if asked.context is None:
        detail = 'Send the context_ref of a context of the flow, or context: "current".'
    elif kind is None:
        return None
    elif kind.requires_context:
        detail = f"{kind.kind} asks for a context that the agent has seen. Send its context_ref and its dfid."
    elif kind.depends_on and kind.context_current is None and asked.seen is None:
        detail = f"{kind.kind} depends on facts. Send their versions in seen, or a context_ref and its dfid."
    else:
        return None
    return Problem(code=ProblemCode.CONTEXT_REQUIRED, detail=detail)


def _seen(asked: ProposalCall, frozen: contexts.Frozen, journal: Journal) -> SnapshotFacts:
    """What the proposal stands on: what the agent says it has seen, else the context compiled with it."""
    if asked.seen is not None:
        return gate_facts.get_seen(
            tenant=journal.flow.tenant, seen=asked.seen, selected=frozen.selected, at=journal.at
        )
    return SnapshotFacts(
        facts=gate_facts.flat(frozen.content["facts"]), expires_at_ms=timestamps.to_ms(frozen.expires_at)
    )


def _trigger(asked: ProposalCall) -> Any:
    return UNSAID_TRIGGER if asked.trigger is None else asked.trigger
