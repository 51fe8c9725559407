"""What policy may know of an escalation, from its rows and the evidence that was shown."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Count

from audit import actors
from escalations import amounts
from escalations.contracts import Family, State
from escalations.evidence_contracts import EvidenceDocument, JudgedEvidence
from escalations.models import Escalation, Question
from escalations.policy import EscalationContext, OwnerLeft
from runtime.contracts import timestamps
from runtime.contracts.reasons import NOT_DONE, QUESTIONED
from runtime.contracts.states import AgentStatus, Direction, Impact, IntentState
from runtime.execution.services import human_steps
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt, due_intents
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.registry.models import Agent
from runtime.registry.queries import invitations, owners


def of(
    *,
    escalation: Escalation,
    agent: Agent,
    shown: EvidenceDocument | None,
    at: datetime,
    owners_left: tuple[OwnerLeft, ...] | None = None,
    questions_asked: int | None = None,
) -> EscalationContext:
    """The situation of one escalation at `at`; `shown` is the current evidence, if it is trusted.

    `owners_left` and `questions_asked` are read here unless the caller has read them for several.
    """
    manifest, intent = agent.active_manifest, escalation.intent
    first = escalation.first_decision
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
        questions_asked=Question.objects.filter(escalation=escalation).count()
        if questions_asked is None
        else questions_asked,
        waiting_until_ms=_ms(escalation.waiting_until),
        in_doubt=intent is not None and is_in_doubt(intent),
        is_known_done=intent is not None and calls_in_doubt.is_at_hand_known_done(intent=intent),
        is_questioned=escalation.reason in QUESTIONED,
        is_paused=intent is not None and _is_not_done(escalation, intent),
        is_contradicted=intent is not None
        and intent.direction == Direction.FORWARD
        and calls_in_doubt.is_flow_contradicted(flow=escalation.flow),
        steps_done=intent is not None and due_intents.has_taken_effect(intent=intent),
        crosses_limit=intent is not None and shown is not None and bool(shown.referred),
        policy_kind=escalation.policy_kind,
        amounts=amounts.of_evidence(shown),
        approvals=approvals_of(shown),
        gate_id=gate_of(shown),
        first_by=None if first is None else first.approver_id,
        in_one_hand=frozenset()
        if first is None
        else invitations.in_one_hand_with(actor=actors.user(first.approver_id), at=at),
        owners_left=list_owners_left(agent, at) if owners_left is None else owners_left,
    )


def of_many(
    *, escalations: Sequence[Escalation], evidence: Mapping[UUID, EvidenceDocument], at: datetime
) -> Mapping[UUID, EscalationContext]:
    """The situations of rows read with `flow__agent__active_manifest` and `intent`, in few queries.

    Of escalations before an intent two queries and one per agent; each with an intent asks about its calls.
    """
    asked = dict(
        Question.objects.filter(escalation__in=[row.pk for row in escalations])
        .values_list("escalation")
        .annotate(asked=Count("pk"))
    )
    agents = {row.flow.agent_id: row.flow.agent for row in escalations}
    left = {pk: list_owners_left(agent, at) for pk, agent in agents.items()}
    return {
        row.pk: of(
            escalation=row,
            agent=row.flow.agent,
            shown=evidence.get(row.pk),
            at=at,
            owners_left=left[row.flow.agent_id],
            questions_asked=asked.get(row.pk, 0),
        )
        for row in escalations
    }


def list_owners_left(agent: Agent, at: datetime) -> tuple[OwnerLeft, ...]:
    """Who owned the agent until lately."""
    return tuple(
        OwnerLeft(
            owner=change.owner_before,
            changed_by=(change.asked_by, change.agreed_by),
            at_ms=timestamps.to_ms(change.agreed_at or at),
        )
        for change in owners.list_recent(agent=agent, at=at)
    )


def impact_of(escalation: Escalation) -> Impact:
    """The impact category as the enum; a word that is none, which only a rewritten row holds, weighs most."""
    is_known = escalation.impact in Impact.values()
    return Impact(escalation.impact) if is_known else Impact.CRITICAL


def approvals_of(shown: EvidenceDocument | None) -> int:
    """How many people the kind asks for; 1 where the evidence names no kind."""
    return shown.kind.approvals if isinstance(shown, JudgedEvidence) else 1


def gate_of(shown: EvidenceDocument | None) -> str:
    """The group whose members must approve; empty where the evidence names none."""
    return shown.kind.gate_id or "" if isinstance(shown, JudgedEvidence) else ""


def _is_not_done(escalation: Escalation, intent: Intent) -> bool:
    """Whether there is nothing to mark as done: held back, or for the step's own group to answer."""
    current = IntentPlan.of(intent).current(intent)
    is_of_group = current is not None and human_steps.is_human(current.step)
    return escalation.reason in NOT_DONE or (is_of_group and escalation.reason not in QUESTIONED)


def is_in_doubt(intent: Intent) -> bool:
    """Whether a call of the intent is in doubt, or the intent itself is."""
    return intent.state == IntentState.IN_DOUBT or calls_in_doubt.is_in_doubt(intent=intent)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else timestamps.to_ms(moment)
