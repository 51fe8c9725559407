"""Calling a person where a workflow does not continue by itself, and continuing when the person has decided.

A router that leads to INTERRUPT calls one (ArbiterOS: human oversight as an instruction). So does a step that
only checkers with `on_fail: ESCALATE` refuse, and a demand that is itself refused. The caller holds the locks
of flow and agent, and writes the journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from audit import events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.reasons import INTERRUPTS, Reason
from runtime.contracts.states import FeedbackType, FlowState
from runtime.contracts.workflow import AllowedStep, WorkflowFold
from runtime.core import ports
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import budget_rules
from runtime.kernel.workflows import steps
from runtime.kernel.workflows.steps import Objection
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.resources.services import escalation_tokens
from runtime.workflows.queries import positions as standings
from runtime.workflows.queries.positions import Standing
from runtime.workflows.services import positions
from runtime.workflows.services.positions import Report


@dataclass(frozen=True, kw_only=True)
class Interrupt:
    """What a person is asked about: the standing of the flow, its fold, and why it does not continue.

    `objections` speak against the `refused` step, which the person may allow, or without one against the
    demanded instruction; there are none where a router called the person.
    """

    standing: Standing
    fold: WorkflowFold
    reason: Reason
    objections: Sequence[Objection] = ()
    refused: Report | None = None


def is_awaiting(flow: Flow) -> bool:
    """Whether a person decides how the flow continues in its workflow."""
    return flow.state == FlowState.ESCALATED and flow.reason in INTERRUPTS


def call_person(*, journal: Journal, agent: Agent, interrupt: Interrupt) -> str | None:
    """Open the escalation for one token; its id. With an empty bucket the flow is aborted instead: None."""
    manifest = granted_kinds.manifest_of(agent)
    per_hour = 0 if manifest is None else manifest.escalations_per_hour
    held = escalation_tokens.held_millitokens(agent=agent, per_hour=per_hour, at=journal.at)
    if budget_rules.whole_tokens(held) < 1:
        escalation_tokens.make_passive(agent=agent, at=journal.at)
        journal.transition(FlowState.ABORTED, reason=Reason.ESCALATION_BUDGET_EXHAUSTED)
        journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": Reason.ESCALATION_BUDGET_EXHAUSTED.value})
        return None
    left = escalation_tokens.spend(agent=agent, held=held, at=journal.at)
    journal.transition(FlowState.ESCALATED, reason=interrupt.reason)
    opened = ports.open_interrupt_escalation(
        flow=journal.flow, agent=agent, interrupt=interrupt, at=journal.at
    )
    journal.add(opened.event, events.BudgetSpent(agent_id=agent.agent_id, tokens_left_milli=left))
    journal.notify_agent(
        FeedbackType.ESCALATION_REQUIRED,
        {
            "escalation_id": str(opened.escalation_id),
            "reason": interrupt.reason.value,
            "details": {"proposed_value": None, "limit": None},
            "status": Reason.AWAITING_HUMAN_INPUT.value,
        },
    )
    return str(opened.escalation_id)


def let_continue(
    *,
    journal: Journal,
    agent: Agent,
    escalation_id: str,
    instruction: str | None = None,
    allowed: AllowedStep | None = None,
) -> Mismatch | None:
    """Let a flow continue as a person decided: `instruction` next, a refused step `allowed`, or no demand.

    `instruction` is one of the workflow. One that is not as it was registered is a mismatch, and nothing is
    written.

    Raises:
        LookupError: for a flow that follows no workflow, which nothing interrupts.
    """
    standing = standings.find(journal.flow, agent)
    if isinstance(standing, Mismatch):
        return standing
    if standing is None:
        raise LookupError("a flow without a workflow was interrupted")
    fold = standing.fold
    if instruction is not None:
        moved = steps.redirect(fold, instruction)
    else:
        moved = steps.resume(fold) if allowed is None else steps.allow(fold, allowed)
    body = positions.store(journal, standing, moved)
    (commitment,) = ledger.commit_payloads(
        tenant=journal.flow.tenant, data_class=PayloadClass.PARAMETERS, bodies=[body]
    )
    journal.add(
        events.FlowContinued(
            escalation_id=escalation_id,
            workflow=standing.document.workflow,
            version=standing.document.version,
            position_commitment=commitment,
            next=instruction,
            allows=None if allowed is None else allowed.instruction,
        )
    )
    journal.transition(FlowState.ACTIVE)
    return None
