"""Row locks in their one order: root flow, children, agent, state, budgets, intent, escalation, heads."""

from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from audit import statements
from runtime.flows.models import Flow, Intent
from runtime.flows.queries import children
from runtime.registry.models import Agent
from runtime.registry.services import agents


def lock_flow(*, dfid: UUID, tenant: str | None = None) -> Flow | None:
    """The flow, locked for this transaction; None where there is none (or it is another tenant's).

    Its open descendants are locked after it, level by level: they end with it, and locking them later would
    be against the order. Nothing locks upward, so flows of one family cannot deadlock.
    """
    flow = lock_one(dfid=dfid, tenant=tenant)
    parents = [flow.pk] if flow is not None and flow.children_opened else []
    while parents:
        below = children.open_below(parents).select_for_update(of=("self",))
        parents = [child.pk for child in below if child.children_opened]
    return flow


def lock_own(*, agent: Agent, dfid: UUID) -> Flow | None:
    """The same of the flows of one agent: to it, another agent's flow is one that does not exist."""
    flow = lock_flow(dfid=dfid, tenant=agent.tenant)
    return flow if flow is not None and flow.agent_id == agent.pk else None


def lock_one(*, dfid: UUID, tenant: str | None = None) -> Flow | None:
    """The flow alone, locked: only for what cannot end it."""
    return _FLOW.first(dfid=dfid) if tenant is None else _FLOW_OF.first(dfid=dfid, tenant=tenant)


def _flow(*, dfid: UUID) -> QuerySet[Flow]:
    return Flow.objects.select_for_update().filter(dfid=dfid)


def _flow_of(*, dfid: UUID, tenant: str) -> QuerySet[Flow]:
    return _flow(dfid=dfid).filter(tenant=tenant)


def lock_intent(*, intent_id: UUID, with_agent: bool = False) -> tuple[Flow, Intent] | None:
    """An intent and its flow, the flow locked first; None where there is no such intent.

    The agent is locked between them where the intent has several steps: a partially executed flow locks it.
    A claim asks for it `with_agent`: no right is withdrawn between its check and its commit.
    """
    known = _KNOWN.first(intent_id=intent_id)
    if known is None:
        return None
    dfid, agent_pk, steps = known
    flow = lock_flow(dfid=dfid)
    agent = agents.lock_by_pk(pk=agent_pk) if with_agent or steps > 1 else None
    intent = _INTENT.first(intent_id=intent_id)
    if flow is None or intent is None:
        return None
    if agent is not None:
        flow.agent = agent
    return flow, intent


def _known(*, intent_id: UUID) -> QuerySet[Intent, tuple[UUID, int, int]]:
    return Intent.objects.filter(intent_id=intent_id).values_list("flow_id", "flow__agent_id", "steps")


def _intent(*, intent_id: UUID) -> QuerySet[Intent]:
    return Intent.objects.select_for_update().filter(intent_id=intent_id)


_FLOW: Final = statements.Read(_flow)
_FLOW_OF: Final = statements.Read(_flow_of)
_KNOWN: Final = statements.Read(_known)
_INTENT: Final = statements.Read(_intent)
