"""Builds the evidence of an escalation: what a person is shown, from the verdict and its rows."""

from datetime import datetime
from uuid import UUID

from audit import actors, canonical
from escalations.contracts import Family
from escalations.evidence_contracts import (
    AgentEvidence,
    AnswerEvidence,
    AttemptEvidence,
    CallEvidence,
    DecisionEvidence,
    FactEvidence,
    IntentEvidence,
    JudgedEvidence,
    KindEvidence,
    OperationalEvidence,
    ProposalEvidence,
    StepEvidence,
)
from escalations.models import Escalation, Question
from escalations.models.question import IS_ANSWERED
from escalations.services import advice_evidence
from runtime.contracts import timestamps
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Decision, Purpose
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import FindingOutcome, VerdictDocument
from runtime.flows.models import Attempt, Intent, Proposal, Verdict
from runtime.flows.queries import saga_progress
from runtime.kernel import salts, units
from runtime.kernel.gate import case_units
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.rules import evaluate, safety
from runtime.state.queries import visible_facts

EFFECT_CHARS = 1000
FIGURE_CHARS = 64


def build(
    *,
    escalation_id: UUID,
    revision: int,
    reason: str,
    proposal: Proposal,
    judgement: Judgement,
    rules: PolicyBundle,
    verdict: VerdictDocument,
    intent: Intent | None,
    at: datetime,
) -> JudgedEvidence:
    """Everything the page shows, except the deadline and who claims it. With `intent` it is operational."""
    if rules.kind is None or rules.manifest is None:
        raise LookupError("nothing is escalated without a policy kind and a manifest")
    kind, asked, agent = rules.kind, judgement.proposal, judgement.facts.agent
    amounts = case_units.of_case(kind, judgement)
    document: type[JudgedEvidence] = DecisionEvidence if intent is None else OperationalEvidence
    return document(
        escalation_id=str(escalation_id),
        revision=revision,
        family=Family.DECISION if intent is None else Family.OPERATIONAL,
        reason=reason,
        dfid=asked.dfid,
        frozen_at=_iso(at),
        effect=verdict.effect,
        impact=verdict.impact,
        figures=verdict.figures,
        type_again=type_again(verdict, kind, amounts),
        # Left out where no amount has a unit: such evidence has the bytes it always had.
        units=amounts if amounts != AmountUnits() else None,
        calibrated=verdict.calibrated,
        advice=advice_evidence.of_proposal(proposal.flow, asked),
        difference=verdict.predicted,
        findings=verdict.findings,
        decision=verdict.decision,
        proposal=ProposalEvidence(
            proposal_id=str(proposal.proposal_id),
            author=proposal.author,
            params=asked.params,
            execution_constraints=asked.execution_constraints,
            context_ref=asked.context_ref,
            confidence=asked.confidence,
            human_review_required=asked.human_review_required,
            received_at=timestamps.iso(timestamps.from_ms(asked.received_at_ms)),
            digest=proposal.digest,
        ),
        facts=_facts(kind, judgement),
        agent=AgentEvidence(
            agent_id=agent.agent_id,
            role=agent.role,
            status=agent.status,
            owner=agent.owner,
            manifest_version=rules.manifest.version,
        ),
        manifest_limits=dict(rules.manifest.limits),
        kind=KindEvidence(
            kind=kind.kind,
            version=kind.version,
            digest=kind.digest,
            title=kind.title,
            reversible=kind.reversible,
            undo=tuple(step.id for step in kind.steps if step.compensate is not None),
            calls=tuple(
                CallEvidence(step=step.id, target=step.target or "", executor=step.executor.value)
                for step in kind.steps
            ),
            params_schema=kind.params_schema,
            approvals=kind.people_needed,
            gate_id=kind.gate_id,
        ),
        policy_bundle_hash=judgement.rules_digest,
        input_digest=canonical.digest(judgement.to_bytes()),
        operational=None if intent is None else _operational(intent),
        explain=proposal.explain,
        salt=salts.derive(asked.salt, of="evidence"),
    )


def without_rules(
    shown: JudgedEvidence, *, revision: int, judgement: Judgement, verdict: VerdictDocument, at: datetime
) -> JudgedEvidence:
    """The next evidence once kind or manifest was withdrawn: what was shown, and that it is refused."""
    return shown.model_copy(
        update={
            "revision": revision,
            "frozen_at": _iso(at),
            "impact": verdict.impact,
            "findings": verdict.findings,
            "decision": verdict.decision,
            "policy_bundle_hash": judgement.rules_digest,
            "input_digest": canonical.digest(judgement.to_bytes()),
        }
    )


def answered(escalation: Escalation) -> tuple[AnswerEvidence, ...]:
    """What the agent answered so far, question by question: claims, which no rule reads."""
    rows = Question.objects.filter(IS_ANSWERED, escalation=escalation).order_by("number")
    return tuple(
        AnswerEvidence(
            number=row.number,
            question=row.text,
            asked_by=actors.user(row.asked_by_id),
            asked_at=_iso(row.asked_at),
            answer=row.answer,
            payload_ref=row.payload_ref,
            answered_at=_iso(row.answered_at),
        )
        for row in rows
    )


def from_row(row: Verdict) -> tuple[Judgement, PolicyBundle, VerdictDocument]:
    """Input, rules and answer of a stored verdict."""
    return from_bytes(bytes(row.input), bytes(row.bundle.body), bytes(row.body))


def from_bytes(
    judged: bytes, bundle: bytes, answer: bytes
) -> tuple[Judgement, PolicyBundle, VerdictDocument]:
    """Input, rules and answer of a verdict, read."""
    return Judgement.from_bytes(judged), PolicyBundle.from_bytes(bundle), VerdictDocument.from_bytes(answer)


def under(
    withdrawn: Withdrawn, *, judgement: Judgement, rules: PolicyBundle, verdict: VerdictDocument
) -> tuple[Judgement, PolicyBundle, VerdictDocument]:
    """An accepted proposal under the active rules: its original findings, and what the rules withdraw.

    The kind stays the one whose calls were made. Where another version of it is active, so does the digest:
    whoever proposes something else is shown that version first.
    """
    in_force = withdrawn.rules
    digest = in_force.digest if in_force.kind == rules.kind else judgement.rules_digest
    return (
        judgement.model_copy(update={"rules_digest": digest}),
        rules.model_copy(update={"manifest": in_force.manifest}),
        verdict.model_copy(
            update={
                "decision": Decision.ESCALATE,
                "findings": (*verdict.findings, *withdrawn.findings),
            }
        ),
    )


def type_again(verdict: VerdictDocument, kind: KindDocument, amounts: AmountUnits) -> str:
    """What a person types again before a HIGH_IMPACT decision: the amount, else the target, else the kind."""
    for finding in verdict.reasons:
        if finding.outcome is FindingOutcome.REFER and finding.check == "limits" and finding.proposed_value:
            unit, number = amounts.limits.get(finding.subject), units.number_in(finding.proposed_value)
            return finding.proposed_value if not unit or number is None else units.write(number, unit)
    values = [segment.text for segment in verdict.effect if segment.value]
    return values[-1] if values else kind.kind


def figures(answer: VerdictDocument, reason: str) -> dict[str, str]:
    """What the queue shows of a verdict: the effect, and the value that crossed its limit."""
    crossed = next((finding for finding in answer.reasons if finding.code == reason), None)
    return {
        "effect": answer.effect_text[:EFFECT_CHARS],
        "proposed_value": (crossed.proposed_value or "")[:FIGURE_CHARS] if crossed else "",
        "limit": (crossed.limit or "")[:FIGURE_CHARS] if crossed else "",
    }


def _facts(kind: KindDocument, judgement: Judgement) -> tuple[FactEvidence, ...]:
    """The facts with their source, so that the page can show age and hash without reading live facts.

    Source, age and digest are those of the version that was judged, which need not be the current one.
    """
    world, asked = judgement.facts.world, judgement.proposal
    rows = visible_facts.list_versions(tenant=asked.tenant, values=world, at_ms=judgement.now_ms)
    judged = (
        ()
        if safety.why_not_asked(kind, params=asked.params, constraints=asked.execution_constraints)
        else evaluate.judge_freshness(
            kind,
            params=asked.params,
            constraints=asked.execution_constraints,
            seen={} if judgement.facts.snapshot is None else judgement.facts.snapshot.facts,
            current=world,
        )
    )
    watched = {item.fact for item in judged}
    return tuple(
        FactEvidence(
            path=path,
            value=world[path],
            depended_on=path in watched,
            version=rows[path].version if path in rows else None,
            writer=rows[path].writer if path in rows else "",
            written_at=_iso(rows[path].written_at) if path in rows else "",
            digest=rows[path].digest if path in rows else "",
        )
        for path in sorted(world)
    )


def _operational(intent: Intent) -> IntentEvidence:
    """What was tried: every attempt with its result and the key that the target saw."""
    steps = saga_progress.list_steps(intent)
    return IntentEvidence(
        intent_id=str(intent.pk),
        target=intent.target,
        failures=intent.failures,
        # Of several steps: which are done, undone, and not. A single step has no such members.
        direction=str(intent.direction) if steps else None,
        cause=intent.cause if steps else None,
        steps=tuple(
            StepEvidence(
                step=step.step,
                target=step.target,
                state=step.state.value,
                is_current=step.is_current,
                has_undo=step.has_undo,
                recorded_at=_iso(step.recorded_at),
                recorded_by=step.recorded_by,
            )
            for step in steps
        ),
        attempts=tuple(
            _attempt(attempt, is_only_step=intent.steps == 1)
            for attempt in Attempt.objects.filter(intent=intent).order_by("number")
        ),
    )


def _attempt(attempt: Attempt, *, is_only_step: bool) -> AttemptEvidence:
    # What it was for, where that is not plain: the one call of the only step.
    is_plain = is_only_step and attempt.purpose == Purpose.CALL
    return AttemptEvidence(
        number=attempt.number,
        step=attempt.step,
        key=attempt.target_key,
        state=attempt.state,
        error_category=attempt.error_category,
        status_code=attempt.status_code,
        detail=attempt.detail,
        started_at=_iso(attempt.started_at),
        direction=None if is_plain else str(attempt.direction),
        purpose=None if is_plain else str(attempt.purpose),
    )


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else timestamps.iso(moment)
