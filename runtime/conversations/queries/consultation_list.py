"""The consultations of a flow, as agents read them. What providers answered is a claim."""

from collections.abc import Iterable
from uuid import UUID

from runtime.advice.models import Consultation
from runtime.advice.queries import consultations
from runtime.advice.queries.consultations import Opened
from runtime.contracts.advice import ConsultationsAnswer, ConsultationShown
from runtime.contracts.consultation import MICROS, ConsultationState
from runtime.flows.models import Flow
from runtime.registry.models import Agent


def list_own(*, agent: Agent, dfid: UUID) -> ConsultationsAnswer | None:
    """Those of a flow of the agent, oldest first; None for a flow that is not its own."""
    flow = Flow.objects.filter(pk=dfid, agent=agent).first()
    if flow is None:
        return None
    rows = Consultation.objects.select_related("provider", "request__conversation").filter(flow=flow)
    # Messages are numbered, and ids of one millisecond have no order.
    return shown(rows.order_by("request_id"), consultations.open_all(flow))


def shown(rows: Iterable[Consultation], opened: Iterable[Opened] = ()) -> ConsultationsAnswer:
    """Rows with their answers, as far as these are what the ledger recorded."""
    by_id = {each.consultation_id: each for each in opened}
    return ConsultationsAnswer(consultations=tuple(_shown(row, by_id.get(str(row.pk))) for row in rows))


def _shown(row: Consultation, opened: Opened | None) -> ConsultationShown:
    said = None if opened is None else opened.seen(())
    return ConsultationShown(
        consultation_id=str(row.pk),
        provider_agent_id=row.provider.agent_id,
        capability_name=row.capability,
        conversation_id=row.request.conversation.name,
        message_id=row.request.message_id,
        state=ConsultationState(row.state),
        asked_at=row.asked_at,
        deadline=row.deadline,
        cost_units=row.cost_micros / MICROS,
        choice=None if said is None else said.choice,
        confidence=None if said is None else said.confidence,
        reason="" if said is None else said.reason,
    )
