"""Row locks in their one order: root flow, children, agent, state, budgets, intent, escalation, heads.

Flows and agents are locked without their keys: a row that only refers to one, such as a message about a flow,
is written meanwhile, and its transaction need not keep to the order.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet, Subquery

from audit import statements
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import children
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.registry.models import Agent
from runtime.registry.services import agents


def lock_flow(*, dfid: UUID, tenant: str | None = None) -> Flow | None:
    """The flow, locked for this transaction; None where there is none (or it is another tenant's).

    Its open descendants are locked after it, level by level: they end with it, and locking them later would
    be against the order. Nothing locks upward, so flows of one family cannot deadlock.
    """
    flow = lock_one(dfid=dfid, tenant=tenant)
    if flow is not None and flow.children_opened:
        _lock_below(flow.pk)
    return flow


def _lock_below(dfid: UUID) -> None:
    parents = [dfid]
    while parents:
        below = children.open_below(parents).select_for_update(of=("self",), no_key=True)
        parents = [child.pk for child in below if child.children_opened]


def lock_own(*, agent: Agent, dfid: UUID) -> Flow | None:
    """The same of the flows of one agent: to it, another agent's flow is one that does not exist."""
    flow = lock_flow(dfid=dfid, tenant=agent.tenant)
    return flow if flow is not None and flow.agent_id == agent.pk else None


def lock_one(*, dfid: UUID, tenant: str | None = None) -> Flow | None:
    """The flow alone, locked: only for what cannot end it."""
    return _FLOW.first(dfid=dfid) if tenant is None else _FLOW_OF.first(dfid=dfid, tenant=tenant)


def _flow(*, dfid: UUID) -> QuerySet[Flow]:
    return Flow.objects.select_for_update(no_key=True).filter(dfid=dfid)


def _flow_of(*, dfid: UUID, tenant: str) -> QuerySet[Flow]:
    return _flow(dfid=dfid).filter(tenant=tenant)


class IntentFlow(NamedTuple):
    """Where an intent belongs, which never changes: its flow, the agent's key, and how many steps it has."""

    dfid: UUID
    agent_pk: int
    steps: int


def lock_intent(*, intent_id: UUID) -> tuple[Flow, Intent] | None:
    """An intent and its flow, the flow locked first; None where there is no such intent.

    The agent is locked between them where the intent has several steps: a partially executed flow locks it.
    Where results label the agent it is locked right after: who locks an intent holds its flow, so that is no
    other order.
    """
    known = _KNOWN.first(intent_id=intent_id)
    if known is None:
        return None
    where = IntentFlow(*known)
    flow, agent = _lock_above(where)
    intent = _INTENT.first(intent_id=intent_id)
    if flow is None or intent is None:
        return None
    _lock_labelled(flow, intent, agent)
    return flow, intent


def lock_with_agent(*, intent_id: UUID) -> tuple[Flow, Intent] | None:
    """The same, with the agent: for a claim, so that no right is withdrawn between its check and its commit.

    The agent is locked before the intent, in one statement. The flow is read in it again: it is ours by then,
    so that it is what it was when it was locked.
    """
    held = _FLOW_OF_INTENT.first(intent_id=intent_id)
    if held is None:
        return None
    dfid, children_opened = held
    if children_opened:
        _lock_below(dfid)
    intent = _INTENT_WITH_AGENT.first(intent_id=intent_id)
    return None if intent is None else (intent.flow, intent)


def lock_attempt(*, intent_id: UUID, number: int, where: IntentFlow) -> tuple[Flow, Intent, Attempt] | None:
    """What `lock_intent` locks, and then the attempt of this number; the caller knows where it belongs."""
    flow, agent = _lock_above(where)
    attempt = _ATTEMPT.first(intent_id=intent_id, number=number)
    if flow is None or attempt is None:
        return None
    _lock_labelled(flow, attempt.intent, agent)
    return flow, attempt.intent, attempt


def _lock_above(where: IntentFlow) -> tuple[Flow | None, Agent | None]:
    flow = lock_flow(dfid=where.dfid)
    return flow, agents.lock_by_pk(pk=where.agent_pk) if where.steps > 1 else None


def _lock_labelled(flow: Flow, intent: Intent, agent: Agent | None) -> None:
    if agent is None and IntentPlan.of(intent).labels:
        agent = agents.lock_by_pk(pk=flow.agent_id)
    if agent is not None:
        flow.agent = agent


def lock_intents(*, intent_ids: Sequence[UUID]) -> list[tuple[Flow, Intent]]:
    """Several intents with their flows and agents, as far as they can be locked together.

    Left out are those whose flow someone else has locked, whose flow has children, which would have to be
    locked after it, and a second one of a flow. No flow is waited for, since the agents of others are locked
    after it; agents are, in the order of their keys.
    """
    known = dict(_FLOWS_OF.rows(intent_ids=list(intent_ids)))
    flows = {flow.pk: flow for flow in _FREE_FLOWS.rows(dfids=sorted(set(known.values())))}
    agent_pks = sorted({flow.agent_id for flow in flows.values()})
    locked = {pk: agents.lock_by_pk(pk=pk) for pk in agent_pks}
    first = {dfid: intent_id for intent_id, dfid in reversed(known.items()) if dfid in flows}
    found = []
    for intent in _INTENTS.rows(intent_ids=sorted(first.values())):
        flow = flows[intent.flow_id]
        flow.agent = locked[flow.agent_id]
        found.append((flow, intent))
    return found


def _flows_of(*, intent_ids: list[UUID]) -> QuerySet[Intent, tuple[UUID, UUID]]:
    return Intent.objects.filter(intent_id__in=intent_ids).values_list("intent_id", "flow_id")


def _free_flows(*, dfids: list[UUID]) -> QuerySet[Flow]:
    rows = Flow.objects.select_for_update(no_key=True, skip_locked=True)
    return rows.filter(dfid__in=dfids, children_opened=0)


def _intents(*, intent_ids: list[UUID]) -> QuerySet[Intent]:
    return Intent.objects.select_for_update().filter(intent_id__in=intent_ids).order_by("intent_id")


def _known(*, intent_id: UUID) -> QuerySet[Intent, tuple[UUID, int, int]]:
    return Intent.objects.filter(intent_id=intent_id).values_list("flow_id", "flow__agent_id", "steps")


def _intent(*, intent_id: UUID) -> QuerySet[Intent]:
    return Intent.objects.select_for_update().filter(intent_id=intent_id)


def _flow_of_intent(*, intent_id: UUID) -> QuerySet[Flow, tuple[UUID, int]]:
    dfid = Subquery(Intent.objects.filter(intent_id=intent_id).values("flow_id"))
    rows = Flow.objects.select_for_update(no_key=True).filter(dfid=dfid)
    return rows.values_list("dfid", "children_opened")


def _intent_with_agent(*, intent_id: UUID) -> QuerySet[Intent]:
    # PostgreSQL locks in the order of `of`, and all with one strength: that of the agent.
    rows = Intent.objects.select_for_update(of=("flow__agent", "self"), no_key=True)
    return rows.select_related("flow__agent").filter(intent_id=intent_id)


def _attempt(*, intent_id: UUID, number: int) -> QuerySet[Attempt]:
    rows = Attempt.objects.select_for_update(of=("intent", "self")).select_related("intent")
    return rows.filter(intent=intent_id, number=number)


_FLOW: Final = statements.Read(_flow)
_FLOW_OF: Final = statements.Read(_flow_of)
_KNOWN: Final = statements.Read(_known)
_INTENT: Final = statements.Read(_intent)
_FLOW_OF_INTENT: Final = statements.Read(_flow_of_intent)
_INTENT_WITH_AGENT: Final = statements.Read(_intent_with_agent)
_ATTEMPT: Final = statements.Read(_attempt)
_FLOWS_OF: Final = statements.Read(_flows_of)
_FREE_FLOWS: Final = statements.Read(_free_flows)
_INTENTS: Final = statements.Read(_intents)
