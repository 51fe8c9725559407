"""Locks an open escalation in the one order of locks: flow, agent, escalation."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from escalations.models import Escalation
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.flows.services import locks
from runtime.registry.models import Agent
from runtime.registry.services import agents


@dataclass(frozen=True, kw_only=True)
class LockedEscalation:
    """An escalation with its flow and agent, all locked, and the moment after the locks were taken."""

    escalation: Escalation
    flow: Flow
    agent: Agent
    at: datetime

    @property
    def is_past_deadline(self) -> bool:
        """Whether the deadline has passed by the time port, read after the locks."""
        deadline_at = self.escalation.deadline_at
        return deadline_at is not None and self.at > deadline_at


def lock_escalation(*, escalation_id: UUID, tenant: str) -> LockedEscalation | None:
    """Lock an escalation for this transaction; None where the tenant has none of this id."""
    dfid = (
        Escalation.objects.of(tenant)
        .filter(escalation_id=escalation_id)
        .values_list("flow_id", flat=True)
        .first()
    )
    flow = None if dfid is None else locks.lock_flow(dfid=dfid, tenant=tenant)
    if flow is None:
        return None
    agent = agents.lock_by_pk(pk=flow.agent_id)
    escalation = (
        Escalation.objects.select_for_update(of=("self",))
        .select_related("proposal", "intent")
        .get(escalation_id=escalation_id)
    )
    return LockedEscalation(escalation=escalation, flow=flow, agent=agent, at=clock.now())
