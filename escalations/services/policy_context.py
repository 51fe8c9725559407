"""What policy may know of an escalation, from its rows and the evidence that was shown."""

from datetime import datetime

from escalations.contracts import Family, State
from escalations.evidence_contracts import EvidenceDocument
from escalations.models import Escalation, Question
from escalations.policy import EscalationContext, OwnerLeft
from runtime.contracts import timestamps
from runtime.contracts.states import AgentStatus, Direction, Impact, IntentState
from runtime.flows.queries import calls_in_doubt, due_intents
from runtime.registry.models import Agent
from runtime.registry.queries import owners


def of(
    *, escalation: Escalation, agent: Agent, shown: EvidenceDocument | None, at: datetime
) -> EscalationContext:
    """The situation of one escalation at `at`; `shown` is the current evidence, if it is trusted."""
    manifest, intent = agent.active_manifest, escalation.intent
    return EscalationContext(
        family=Family(escalation.family),
        state=State(escalation.state),
        impact=impact_of(escalation),
        agent_owner=agent.owner,
        manifest_activated_by="" if manifest is None else manifest.activated_by,
        manifest_written_by="" if manifest is None else manifest.created_by,
        manifest_activated_at_ms=_ms(None if manifest is None else manifest.activated_at),
        deadline_at_ms=_ms(escalation.deadline_at),
        failing=() if shown is None else tuple(item.message for item in shown.failing),
        agent_status=AgentStatus(agent.status),
        questions_asked=Question.objects.filter(escalation=escalation).count(),
        waiting_until_ms=_ms(escalation.waiting_until),
        in_doubt=intent is not None
        and (intent.state == IntentState.IN_DOUBT or calls_in_doubt.is_in_doubt(intent=intent)),
        is_known_done=intent is not None and calls_in_doubt.is_at_hand_known_done(intent=intent),
        is_contradicted=intent is not None
        and intent.direction == Direction.FORWARD
        and calls_in_doubt.is_flow_contradicted(flow=escalation.flow),
        steps_done=intent is not None and due_intents.has_taken_effect(intent=intent),
        crosses_limit=intent is not None and shown is not None and bool(shown.referred),
        owners_left=tuple(
            OwnerLeft(
                owner=change.owner_before,
                changed_by=(change.asked_by, change.agreed_by),
                at_ms=timestamps.to_ms(change.agreed_at or at),
            )
            for change in owners.list_recent(agent=agent, at=at)
        ),
    )


def impact_of(escalation: Escalation) -> Impact:
    """The impact category as the enum; a word that is none, which only a rewritten row holds, weighs most."""
    is_known = escalation.impact in Impact.values()
    return Impact(escalation.impact) if is_known else Impact.HIGH_IMPACT


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else timestamps.to_ms(moment)
