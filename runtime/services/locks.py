"""Row locks in the one order of 10: flow, agent, state, budgets, intent, escalation, stream heads."""

from uuid import UUID

from runtime.models import Agent, Flow, Intent


def lock_flow(*, dfid: UUID, tenant: str | None = None) -> Flow | None:
    """The flow, locked for this transaction; None where there is none (or it is another tenant's)."""
    rows = Flow.objects.select_for_update().filter(dfid=dfid)
    return (rows if tenant is None else rows.filter(tenant=tenant)).first()


def lock_agent(*, pk: int) -> Agent:
    """The agent, locked: its status, bucket and history cannot be passed by two flows at once."""
    return Agent.objects.select_for_update(of=("self",)).select_related("active_manifest").get(pk=pk)


def lock_intent(*, intent_id: UUID) -> tuple[Flow, Intent] | None:
    """An intent and its flow, the flow locked first; None where there is no such intent."""
    dfid = Intent.objects.filter(intent_id=intent_id).values_list("flow_id", flat=True).first()
    if dfid is None:
        return None
    flow = lock_flow(dfid=dfid)
    intent = Intent.objects.select_for_update().get(intent_id=intent_id)
    return (flow, intent) if flow is not None else None
