"""The evidence of an interrupted workflow: where the flow stands, which policy called a person, and why.

It does not drift: while a person decides, no step is taken. Only an answer of the agent revises it.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from audit import canonical, events
from escalations.contracts import Family, FirstEnd
from escalations.evidence_contracts import (
    AgentEvidence,
    EvidenceDocument,
    FollowedWorkflow,
    InterruptCause,
    InterruptEvidence,
    RefusedPolicy,
    RefusedStep,
)
from escalations.models import Escalation, Evidence
from escalations.services import evidence, first_decisions
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.contracts.verdict import Segment
from runtime.contracts.workflow import INTERRUPT, AllowedStep
from runtime.flows.models import Flow
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import effects
from runtime.kernel.workflows import steps
from runtime.registry.models import Agent
from runtime.workflows.services.interrupts import Interrupt


def build(
    *, escalation_id: UUID, flow: Flow, agent: Agent, interrupt: Interrupt, at: datetime
) -> InterruptEvidence:
    """Everything that the page shows, except the deadline and who claims it.

    Raises:
        LookupError: for a fold in which no router demands anything and no step was refused, or an agent
            without a manifest.
    """
    fold, document, manifest = interrupt.fold, interrupt.standing.document, agent.active_manifest
    if manifest is None:
        raise LookupError("nothing is interrupted without a manifest")
    cause = _cause(interrupt)
    return InterruptEvidence(
        escalation_id=str(escalation_id),
        revision=1,
        family=Family.INTERRUPT,
        reason=interrupt.reason.value,
        dfid=str(flow.dfid),
        frozen_at=timestamps.iso(at),
        effect=_effect(agent.agent_id, f"{document.workflow} {document.version}", fold.position, cause),
        impact=document.impact,
        type_again="",
        agent=AgentEvidence(
            agent_id=agent.agent_id,
            role=AgentRole(agent.role),
            status=AgentStatus(agent.status),
            owner=agent.owner,
            manifest_version=manifest.version,
        ),
        followed=FollowedWorkflow(
            workflow=document.workflow,
            version=document.version,
            digest=interrupt.standing.workflow.digest,
            instructions=tuple(sorted(document.instructions)),
        ),
        cause=cause,
        fold=fold,
        # Of its own: there is no proposal to derive it from.
        salt=secrets.token_hex(16),
    )


def _cause(interrupt: Interrupt) -> InterruptCause:
    refused_by = tuple(RefusedPolicy(policy=one.subject, message=one.message) for one in interrupt.objections)
    step, demand = interrupt.refused, interrupt.fold.pending
    if step is not None:
        first = refused_by[0]
        return InterruptCause(
            policy=first.policy,
            demands=INTERRUPT,
            message=first.message,
            refused_by=refused_by,
            refused=RefusedStep(instruction=step.instruction, input=dict(step.input)),
        )
    if demand is None:
        raise LookupError("nothing is interrupted without a demand or a refused step")
    return InterruptCause(
        policy=demand.policy, demands=demand.instruction, message=demand.reason, refused_by=refused_by
    )


def allowed_step(shown: EvidenceDocument | None) -> AllowedStep | None:
    """The step that RESUME allows: just the one that was shown, past the checkers that were shown."""
    if not isinstance(shown, InterruptEvidence) or shown.cause.refused is None:
        return None
    refused = shown.cause.refused
    return AllowedStep(
        instruction=refused.instruction,
        input_digest=steps.input_digest(refused.input),
        policies=tuple(one.policy for one in shown.cause.refused_by),
    )


def _effect(agent_id: str, name: str, position: str | None, cause: InterruptCause) -> tuple[Segment, ...]:
    """What a person has to know, in one sentence; the name of the agent is isolated as a given value."""
    after = f" after {position}" if position else ""
    refusing = ", ".join(dict.fromkeys(one.policy for one in cause.refused_by))
    if cause.refused is not None:
        why = f"{cause.refused.instruction} needs a person, by {refusing}"
    elif cause.refused_by:
        why = f"{cause.policy} demands {cause.demands}, which is refused by {refusing}"
    else:
        why = f"{cause.policy} calls a person: {cause.message.rstrip('.')}"
    return (
        Segment(text=effects.visible(agent_id), value=True),
        Segment(text=f" does not continue in {name}{after}: {why}", value=False),
    )


def refuse_instruction(shown: EvidenceDocument | None, instruction: str) -> Problem | None:
    """Why REDIRECT may not lead to `instruction`, which has to be one of the workflow that was shown."""
    named: Sequence[str] = shown.followed.instructions if isinstance(shown, InterruptEvidence) else ()
    if instruction in named:
        return None
    detail = f"Choose the instruction that comes next: {', '.join(named)}."
    return Problem(code=ProblemCode.INSTRUCTION_UNKNOWN, detail=detail)


def revise_with_answer(
    *, escalation: Escalation, shown: InterruptEvidence, journal: Journal, number: int
) -> None:
    """Make revision n+1, which holds the agent's answer to a question. The caller holds the locks."""
    why = f"the agent answered question {number}"
    following = shown.model_copy(
        update={
            "revision": escalation.revision + 1,
            "frozen_at": timestamps.iso(journal.at),
            "questions": evidence.answered(escalation),
        }
    )
    body = following.to_bytes()
    escalation.revision += 1
    escalation.version += 1
    escalation.evidence_hash = canonical.digest(body)
    escalation.save(update_fields=["revision", "version", "evidence_hash"])
    Evidence.objects.create(
        escalation=escalation,
        revision=escalation.revision,
        body=body,
        hash=escalation.evidence_hash,
        why=why,
        created_at=journal.at,
    )
    journal.add(
        *first_decisions.end(escalation=escalation, why=FirstEnd.EVIDENCE_CHANGED),
        events.EscalationRevised(
            escalation_id=str(escalation.pk),
            revision=escalation.revision,
            evidence_hash=escalation.evidence_hash,
            why=why,
            impact=following.impact,
            approvals=1,
        ),
    )
