"""Opening an escalation inside the gate's transaction, and withdrawing one when its flow ends otherwise."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from audit import canonical, events
from escalations.contracts import Closing, Family, FirstEnd, Occasion, State
from escalations.models import Escalation, Evidence
from escalations.services import evidence, first_decisions, questions
from escalations.services.notices import outbox
from runtime.contracts.verdict import VerdictDocument
from runtime.core import mismatches
from runtime.core.ids import new_id
from runtime.flows.models import Flow, Intent, Proposal, Verdict
from runtime.flows.queries import recorded_flow
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.gate.recheck import Withdrawn
from runtime.proposals.services import judging


@dataclass(frozen=True, kw_only=True)
class OpenedEscalation:
    """What the runtime's journal and the agent's answer need."""

    escalation_id: UUID
    evidence_hash: str
    event: events.Event


def open_escalation(
    *,
    flow: Flow,
    proposal: Proposal,
    verdict: Verdict,
    intent: Intent | None,
    family: str,
    reason: str,
    at: datetime,
    withdrawn: Withdrawn | None = None,
) -> OpenedEscalation:
    """Open an escalation with revision 1 of its evidence. The caller holds the flow and writes the entry.

    With `withdrawn` the person is shown the active rules and what they no longer grant.
    """
    kind_of = Family(family)
    judgement, rules, answer = _basis(flow, verdict, intent, at)
    if withdrawn is not None:
        judgement, rules, answer = evidence.under(withdrawn, judgement=judgement, rules=rules, verdict=answer)
    escalation_id = new_id()
    shown = evidence.build(
        escalation_id=escalation_id,
        revision=1,
        reason=reason,
        proposal=proposal,
        judgement=judgement,
        rules=rules,
        verdict=answer,
        intent=intent,
        at=at,
    )
    # Time resolves nothing of an operational escalation; the others end by the kind's SLA.
    deadline_at = None
    if kind_of is not Family.OPERATIONAL:
        sla_s = (rules.kind.sla_s if rules.kind else None) or settings.DIR_ESCALATION_SLA_S
        deadline_at = at + timedelta(seconds=sla_s)
    row = Escalation(
        escalation_id=escalation_id,
        tenant=flow.tenant,
        flow=flow,
        proposal=proposal,
        intent=intent,
        family=kind_of,
        reason=reason,
        impact=answer.impact,
        impact_rank=answer.impact.rank,
        agent_id=judgement.facts.agent.agent_id,
        policy_kind=judgement.proposal.policy_kind,
        rule=shown.rule,
        incident=shown.incident,
        **evidence.figures(answer, reason),
        opened_at=at,
        deadline_at=deadline_at,
    )
    return store(row, body=shown.to_bytes(), approvals=shown.kind.approvals)


def store(row: Escalation, *, body: bytes, approvals: int = 1) -> OpenedEscalation:
    """Store a new escalation with `body` as revision 1 of its evidence and queue who is told of it.

    The caller writes the entry.
    """
    row.evidence_hash = canonical.digest(body)
    row.save(force_insert=True)
    Evidence.objects.create(
        escalation=row, revision=1, body=body, hash=row.evidence_hash, why="opened", created_at=row.opened_at
    )
    outbox.queue(row, occasion=Occasion.OPENED, at=row.opened_at)
    entry = events.EscalationOpened(
        escalation_id=str(row.pk),
        family=row.family,
        reason=row.reason,
        impact=row.impact,
        revision=row.revision,
        evidence_hash=row.evidence_hash,
        deadline_at=row.deadline_at,
        approvals=approvals,
    )
    return OpenedEscalation(escalation_id=row.pk, evidence_hash=row.evidence_hash, event=entry)


def _basis(
    flow: Flow, verdict: Verdict, intent: Intent | None, at: datetime
) -> tuple[pipeline.Judgement, PolicyBundle, VerdictDocument]:
    """What a person is shown of a verdict: never a row that is not what the ledger recorded.

    A person is asked all the same. An answer that was rewritten follows again from its input and its rules;
    where these were, the proposal is judged as of now. Of a verdict without an intent the entry is yet to be
    written.
    """
    if intent is None:
        return evidence.from_row(verdict)
    known = recorded_flow.of_flow(tenant=flow.tenant, dfid=flow.dfid)
    if known.compare_verdict(verdict) is None:
        return evidence.from_row(verdict)
    recorded = known.verdicts.get(str(verdict.pk), {})
    basis = (("input_digest", verdict.input), ("policy_bundle_hash", verdict.bundle.body))
    if not any(mismatches.compare("", "", recorded.get(name, ""), body) for name, body in basis):
        body = pipeline.judge_bytes(bytes(verdict.input), bytes(verdict.bundle.body))
        if canonical.digest(body) == recorded.get("verdict_digest"):
            return evidence.from_bytes(bytes(verdict.input), bytes(verdict.bundle.body), body)
    fresh = judging.reconsider(flow=flow, agent=flow.agent, proposal=verdict.proposal, at=at)
    return fresh.judgement, fresh.rules, fresh.verdict


def close_escalations(*, flow: Flow, at: datetime) -> list[events.Event]:
    """Withdraw what is open on a flow that ends otherwise; returns the entries for its journal."""
    rows = list(Escalation.objects.select_for_update().filter(flow=flow, state=State.OPEN))
    added: list[events.Event] = []
    for row in rows:
        added += first_decisions.end(escalation=row, why=FirstEnd.FLOW_ENDED)
        added += questions.stop(escalation=row, at=at, why=Closing.WITHDRAWN)
        row.state, row.resolved_at, row.resolution = State.WITHDRAWN, at, "WITHDRAWN"
        row.version += 1
        row.save(update_fields=["state", "resolved_at", "resolution", "version"])
        outbox.queue(row, occasion=Occasion.CLOSED, at=at)
        added.append(events.EscalationWithdrawn(escalation_id=str(row.pk)))
    return added
