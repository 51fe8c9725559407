"""Opening the escalation of a flow that does not continue in its workflow, in the runtime's transaction."""

from datetime import datetime, timedelta

from django.conf import settings

from escalations.contracts import Family
from escalations.models import Escalation
from escalations.services import evidence, interrupt_evidence, opening
from escalations.services.opening import OpenedEscalation
from runtime.core.ids import new_id
from runtime.flows.models import Flow
from runtime.registry.models import Agent
from runtime.workflows.services.interrupts import Interrupt


def open_escalation(*, flow: Flow, agent: Agent, interrupt: Interrupt, at: datetime) -> OpenedEscalation:
    """Open it with revision 1 of its evidence. The caller holds flow and agent, and writes the entry.

    The workflow says how weighty it is and for how long it waits.
    """
    escalation_id = new_id()
    shown = interrupt_evidence.build(
        escalation_id=escalation_id, flow=flow, agent=agent, interrupt=interrupt, at=at
    )
    sla_s = interrupt.standing.document.sla_s or settings.DIR_ESCALATION_SLA_S
    row = Escalation(
        escalation_id=escalation_id,
        tenant=flow.tenant,
        flow=flow,
        family=Family.INTERRUPT,
        reason=shown.reason,
        impact=shown.impact,
        impact_rank=shown.impact.rank,
        agent_id=agent.agent_id,
        policy_kind="",
        rule=shown.rule,
        effect="".join(part.text for part in shown.effect)[: evidence.EFFECT_CHARS],
        opened_at=at,
        deadline_at=at + timedelta(seconds=sla_s),
    )
    return opening.store(row, body=shown.to_bytes())
