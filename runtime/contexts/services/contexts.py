"""Give an agent its working context: compile, freeze, store under the name that a proposal will cite."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models.constants import OnConflict

from audit import actors, canonical, events, statements
from runtime.contexts.models import Snapshot
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.context import ContextBudget, SchemaRef
from runtime.contracts.problem import Problem
from runtime.contracts.source_labels import LabelSource
from runtime.contracts.states import FlowState
from runtime.core import clock, mismatches, transactions
from runtime.flows.models import Flow
from runtime.flows.queries import feedback
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import context, salts
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agent_labels
from runtime.state.queries import memory_layers, visible_facts
from runtime.state.queries.visible_facts import LiveFacts


@transactions.retried
def compile_context(*, agent: Agent, dfid: UUID) -> api_schemas.ContextAnswer | Problem:
    """Freeze the facts that the agent may see now; its first context makes a flow ACTIVE.

    404 for a flow that is not the agent's, 409 FLOW_NOT_OPEN once the flow has ended.
    """
    flow = flows.lock_open(
        agent=agent, dfid=dfid, once_ended=" and no longer provides context. Open a new flow."
    )
    if isinstance(flow, Problem):
        return flow
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    frozen = freeze(journal, agent)
    journal.write()
    return api_schemas.ContextAnswer(
        context_ref=frozen.context_ref,
        context={"snapshot_id": frozen.context_ref, **frozen.content},
        expires_at=frozen.expires_at,
    )


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A context that is stored: its name, its members, until when it may be used, and what it shows."""

    context_ref: str
    content: dict[str, Any]
    expires_at: datetime
    # Exact paths and namespaces (`price.`).
    selected: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Visible:
    """What was read of what an agent may see: the kinds granted to it, and the facts under `selected`."""

    kinds: Sequence[PolicyKind]
    selected: tuple[str, ...]
    facts: LiveFacts
    has_artifacts: bool = True


def freeze(journal: Journal, agent: Agent, *, visible: Visible | None = None) -> Frozen:
    """Store what the agent may see at the journal's moment, in the caller's transaction.

    The flow is locked, has not ended, and becomes ACTIVE with its first context. The caller writes the
    journal. `visible` was read in the same transaction; without it, it is read here.
    """
    flow = journal.flow
    visible = _read(agent) if visible is None else visible
    compiled = _compile(journal, agent, visible)
    expires_at = journal.at + timedelta(seconds=settings.DIR_CONTEXT_TTL_S)
    # The same content has the same name: asking again renews its time.
    snapshot = Snapshot(
        flow=flow,
        context_ref=compiled.context_ref,
        body=compiled.body,
        created_at=journal.at,
        expires_at=expires_at,
    )
    statements.insert(
        [snapshot],
        on_conflict=OnConflict.UPDATE,
        unique_fields=("flow", "context_ref"),
        update_fields=("expires_at",),
    )
    content = canonical.decode(compiled.body)
    journal.add(
        events.ContextCompiled(
            context_ref=compiled.context_ref,
            fact_count=len(content["versions"]),
            expires_at=expires_at,
            compiler_version=context.COMPILER_VERSION,
        )
    )
    if flow.state == FlowState.CREATED:
        journal.transition(FlowState.ACTIVE)
    return Frozen(
        context_ref=compiled.context_ref, content=content, expires_at=expires_at, selected=visible.selected
    )


def _read(agent: Agent) -> Visible:
    kinds = granted_kinds.list_granted(agent)
    selected = visible_facts.selectors(agent=agent, kinds=kinds)
    facts = visible_facts.read_live(tenant=agent.tenant, selected=selected)
    return Visible(kinds=kinds, selected=selected, facts=facts)


def _compile(journal: Journal, agent: Agent, visible: Visible) -> context.Compiled:
    flow, at = journal.flow, journal.at
    told, tampered = feedback.latest(flow=flow, count=context.RECENT_EVENTS)
    unsaid = mismatches.list_unsaid(tampered, tenant=flow.tenant, stream=str(flow.dfid))
    journal.add(*(item.event() for item in unsaid))
    since = at - timedelta(seconds=settings.DIR_CONTEXT_HISTORY_S)
    memory = memory_layers.list_readable(agent=agent, at=at, limit=context.MAX_REMEMBERED)
    if labels := memory_layers.labels_for(agent, memory):
        agent_labels.gain(
            agent_pk=agent.pk,
            labels=labels,
            because=LabelSource.MEMORY,
            source=str(flow.dfid),
            at=at,
        )
    return context.compile_context(
        selected=visible.selected,
        facts=visible.facts.as_seen(),
        history=[api_schemas.plain(event) for event in told],
        mission=agent.mission,
        schemas=[
            SchemaRef(
                kind=row.kind,
                version=row.version,
                digest=row.digest,
                schema_url=api_schemas.schema_url(row.kind, row.version),
            )
            for row in visible.kinds
        ],
        budget=ContextBudget(
            attempts_left=flow.attempts_allowed - flow.attempts_used,
            escalation_tokens=feedback.escalation_tokens(agent, at=at),
        ),
        bounds=context.Bounds(since=timestamps.iso(since), tokens=settings.DIR_CONTEXT_TOKENS),
        memory=[memory_layers.remembered(row) for row in memory],
        artifacts=memory_layers.list_artifacts(agent=agent, limit=context.MAX_ARTIFACTS)
        if visible.has_artifacts
        else (),
        salt=_salt_of(flow),
    )


def _salt_of(flow: Flow) -> str:
    """One salt for all contexts of a flow, so that the same content keeps its name."""
    if flow.state == FlowState.CREATED:  # It has none yet.
        return secrets.token_hex(16)
    newest = Snapshot.objects.filter(flow=flow).order_by("-created_at").values_list("body", flat=True).first()
    return (None if newest is None else salts.find(bytes(newest))) or secrets.token_hex(16)
