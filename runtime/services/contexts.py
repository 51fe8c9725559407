"""Give an agent its working context: compile, freeze, store under the name that a proposal will cite."""

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from audit import canonical, events
from runtime.contracts import wire
from runtime.contracts.context import ContextBudget, SchemaRef
from runtime.contracts.problem import Problem
from runtime.contracts.states import ENDED, FlowState
from runtime.kernel import context
from runtime.models import Agent, Flow, Snapshot
from runtime.queries import clock, feedback, memory, schemas, world
from runtime.services import flows, locks, races
from runtime.services.journal import Journal


def compile_context(*, agent: Agent, dfid: UUID) -> wire.ContextAnswer | Problem:
    """Freeze the facts that the agent may see now; its first context makes a flow ACTIVE.

    404 for a flow that is not the agent's, 409 FLOW_NOT_OPEN once the flow has ended.
    """

    def work() -> wire.ContextAnswer | Problem:
        flow = locks.lock_flow(dfid=dfid, tenant=agent.tenant)
        if flow is None or flow.agent_id != agent.pk:
            return flows.not_found()
        if flow.state in ENDED:
            return Problem(
                status=409,
                code="FLOW_NOT_OPEN",
                detail=f"The flow is {flow.state} and no longer provides context. Open a new flow.",
                dfid=str(dfid),
            )
        return _freeze(flow, agent)

    return races.run(work)


def _freeze(flow: Flow, agent: Agent) -> wire.ContextAnswer:
    journal = Journal(flow=flow, actor=f"agent:{agent.agent_id}", at=clock.now())
    compiled = _compile(flow, agent, journal.at)
    expires_at = journal.at + timedelta(seconds=settings.DIR_CONTEXT_TTL_S)
    # The same content has the same name: asking again renews its time.
    snapshot = Snapshot(
        flow=flow,
        context_ref=compiled.context_ref,
        body=compiled.body,
        created_at=journal.at,
        expires_at=expires_at,
    )
    Snapshot.objects.bulk_create(
        [snapshot],
        update_conflicts=True,
        unique_fields=["flow", "context_ref"],
        update_fields=["expires_at"],
    )
    content = canonical.decode(compiled.body)
    journal.add(
        events.ContextCompiled(
            context_ref=compiled.context_ref, fact_count=len(content["versions"]), expires_at=expires_at
        )
    )
    if flow.state == FlowState.CREATED:
        journal.move(FlowState.ACTIVE)
    journal.write()
    return wire.ContextAnswer(
        context_ref=compiled.context_ref,
        context={"snapshot_id": compiled.context_ref, **content},
        expires_at=expires_at,
    )


def _compile(flow: Flow, agent: Agent, at: datetime) -> context.Compiled:
    since = at - timedelta(seconds=settings.DIR_CONTEXT_HISTORY_S)
    kinds = schemas.list_active(tenant=agent.tenant, names=schemas.granted(agent))
    selected = world.selectors(agent=agent, kinds=kinds)
    return context.compile_context(
        selected=selected,
        facts=world.list_facts(tenant=agent.tenant, selected=selected),
        history=[wire.plain(event) for event in feedback.latest(flow=flow, count=context.RECENT_EVENTS)],
        mission=agent.mission,
        schemas=[
            SchemaRef(
                kind=row.kind,
                version=row.version,
                digest=row.digest,
                schema_url=wire.schema_url(row.kind, row.version),
            )
            for row in kinds
        ],
        budget=ContextBudget(
            attempts_left=flow.attempts_allowed - flow.attempts_used,
            escalation_tokens=feedback.escalation_tokens(agent),
        ),
        bounds=context.Bounds(since=wire.iso(since), tokens=settings.DIR_CONTEXT_TOKENS),
        memory=memory.list_readable(agent=agent, at=at, limit=context.MAX_REMEMBERED),
        artifacts=memory.list_artifacts(agent=agent, limit=context.MAX_ARTIFACTS),
    )
