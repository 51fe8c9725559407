"""The evidence bundle: what a person is shown, as canonical JSON, hashed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import actors, canonical
from escalations.models import Escalation, Question
from escalations.models.question import IS_ANSWERED
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Decision, Purpose
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.flows.models import Attempt, Intent, Proposal, Verdict
from runtime.flows.queries import saga_progress
from runtime.kernel import timestamps, units
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.rules import evaluate, kind_units, safety
from runtime.state.queries import visible_facts


def build(
    *,
    escalation_id: UUID,
    revision: int,
    family: str,
    reason: str,
    proposal: Proposal,
    judgement: Judgement,
    rules: PolicyBundle,
    verdict: VerdictDocument,
    intent: Intent | None,
    at: datetime,
) -> dict[str, Any]:
    """The bundle as plain JSON. It holds everything the page shows, except the deadline and who claims it."""
    if rules.kind is None or rules.manifest is None:
        raise LookupError("nothing is escalated without a policy kind and a manifest")
    kind = rules.kind
    asked = judgement.proposal
    amounts = kind_units.of_kind(kind, judgement.facts.resources or ())
    known = amounts.model_dump(mode="json")
    return {
        "escalation_id": str(escalation_id),
        "revision": revision,
        "family": family,
        "reason": reason,
        "dfid": asked.dfid,
        "frozen_at": timestamps.iso(timestamps.to_ms(at)),
        "effect": [segment.model_dump(mode="json") for segment in verdict.effect],
        "impact": verdict.impact.value,
        "figures": [item.model_dump(mode="json") for item in verdict.figures],
        "type_again": type_again(verdict, kind, amounts),
        # Left out where no amount has a unit: such evidence has the bytes it always had.
        **({"units": known} if known else {}),
        "difference": [item.model_dump(mode="json") for item in verdict.predicted],
        "findings": [finding.model_dump(mode="json") for finding in verdict.findings],
        "decision": verdict.decision.value,
        "proposal": {
            "proposal_id": str(proposal.proposal_id),
            "author": proposal.author,
            "params": asked.params,
            "execution_constraints": asked.execution_constraints,
            "context_ref": asked.context_ref,
            "confidence": asked.confidence,
            "human_review_required": asked.human_review_required,
            "received_at": timestamps.iso(asked.received_at_ms),
            "digest": proposal.digest,
        },
        "facts": _facts(kind, judgement),
        "agent": {
            **judgement.facts.agent.model_dump(mode="json"),
            "manifest_version": rules.manifest.version,
        },
        "manifest_limits": dict(rules.manifest.limits),
        "kind": {
            "kind": kind.kind,
            "version": kind.version,
            "digest": kind.digest,
            "title": kind.title,
            "reversible": kind.reversible,
            "undo": [step.id for step in kind.steps if step.compensate is not None],
            "calls": [
                {"step": step.id, "target": step.target or "", "executor": step.executor.value}
                for step in kind.steps
            ],
            "params_schema": kind.params_schema,
        },
        "policy_bundle_hash": judgement.rules_digest,
        "input_digest": canonical.digest(judgement.to_bytes()),
        "operational": None if intent is None else _operational(intent),
        "explain": proposal.explain,
    }


def without_rules(
    shown: Mapping[str, Any], *, revision: int, judgement: Judgement, verdict: VerdictDocument, at: datetime
) -> dict[str, Any]:
    """The next bundle once kind or manifest was withdrawn: what was shown, and that it is refused."""
    return {
        **shown,
        "revision": revision,
        "frozen_at": timestamps.iso(timestamps.to_ms(at)),
        "impact": verdict.impact.value,
        "findings": [finding.model_dump(mode="json") for finding in verdict.findings],
        "decision": verdict.decision.value,
        "policy_bundle_hash": judgement.rules_digest,
        "input_digest": canonical.digest(judgement.to_bytes()),
    }


def answered(escalation: Escalation) -> list[dict[str, Any]]:
    """What the agent answered so far, question by question: claims, which no rule reads."""
    rows = Question.objects.filter(IS_ANSWERED, escalation=escalation).order_by("number")
    return [
        {
            "number": row.number,
            "question": row.text,
            "asked_by": actors.user(row.asked_by_id),
            "asked_at": timestamps.iso(timestamps.to_ms(row.asked_at)),
            "answer": row.answer,
            "payload_ref": row.payload_ref,
            "answered_at": ""
            if row.answered_at is None
            else timestamps.iso(timestamps.to_ms(row.answered_at)),
        }
        for row in rows
    ]


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


def referred(bundle: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings of a bundle that a person may override, as they were shown."""
    found = (Finding.model_validate_json(canonical.encode(item)) for item in bundle.get("findings", ()))
    return tuple(item for item in found if item.outcome is FindingOutcome.REFER)


def type_again(verdict: VerdictDocument, kind: KindDocument, amounts: AmountUnits) -> str:
    """What a person types again before a HIGH_IMPACT decision: the amount, else the target, else the kind."""
    for finding in verdict.reasons:
        if finding.outcome is FindingOutcome.REFER and finding.check == "limits" and finding.proposed_value:
            unit, number = amounts.limits.get(finding.subject), units.number_in(finding.proposed_value)
            return finding.proposed_value if not unit or number is None else units.write(number, unit)
    values = [segment.text for segment in verdict.effect if segment.value]
    return values[-1] if values else kind.kind


def findings_key(bundle: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    """The finding set of a bundle: what has to stay the same for the evidence to hold."""
    return frozenset(
        (item["check"], item["code"], item["subject"])
        for item in bundle["findings"]
        if item["outcome"] in {FindingOutcome.FAIL, FindingOutcome.REFER}
    )


def seen_facts(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that were shown, path to value."""
    return {item["path"]: item["value"] for item in bundle["facts"]}


def predicted_paths(bundle: Mapping[str, Any]) -> frozenset[str]:
    """The facts that the effect is expected to change, as they were shown."""
    return frozenset(item["fact"] for item in bundle["difference"])


def digests(bundle: Mapping[str, Any]) -> dict[str, str]:
    """The facts that the evidence depends on, path to digest; empty where there was no such fact."""
    predicted = predicted_paths(bundle)
    known = {
        item["path"]: item["digest"]
        for item in bundle["facts"]
        if item["depended_on"] or item["path"] in predicted
    }
    return dict.fromkeys(predicted, "") | known


def _facts(kind: KindDocument, judgement: Judgement) -> list[dict[str, Any]]:
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
    moves = {item.fact: item.move.value for item in judged}
    return [
        {
            "path": path,
            "value": world[path],
            "depended_on": path in moves,
            "version": rows[path].version if path in rows else None,
            "writer": rows[path].writer if path in rows else "",
            "written_at": timestamps.iso(timestamps.to_ms(rows[path].written_at)) if path in rows else "",
            "digest": rows[path].digest if path in rows else "",
        }
        for path in sorted(world)
    ]


def _operational(intent: Intent) -> dict[str, Any]:
    """What was tried: every attempt with its result and the key that the target saw."""
    steps = saga_progress.list_steps(intent)
    # Of several steps: which are done, undone, and not. A single step has no such members.
    walk: dict[str, Any] = {}
    if steps:
        walk = {
            "direction": str(intent.direction),
            "cause": intent.cause,
            "steps": [
                {
                    "step": step.step,
                    "target": step.target,
                    "state": step.state.value,
                    "is_current": step.is_current,
                    "has_undo": step.has_undo,
                    "recorded_at": ""
                    if step.recorded_at is None
                    else timestamps.iso(timestamps.to_ms(step.recorded_at)),
                    "recorded_by": step.recorded_by,
                }
                for step in steps
            ],
        }
    return {
        "intent_id": str(intent.pk),
        "target": intent.target,
        "failures": intent.failures,
        **walk,
        "attempts": [
            {
                "number": attempt.number,
                "step": attempt.step,
                "key": attempt.target_key,
                "state": attempt.state,
                "error_category": attempt.error_category,
                "status_code": attempt.status_code,
                "detail": attempt.detail,
                "started_at": timestamps.iso(timestamps.to_ms(attempt.started_at)),
                # What it was for, where that is not plain: the one call of the only step.
                **(
                    {}
                    if intent.steps == 1 and attempt.purpose == Purpose.CALL
                    else {"direction": str(attempt.direction), "purpose": str(attempt.purpose)}
                ),
            }
            for attempt in Attempt.objects.filter(intent=intent).order_by("number")
        ],
    }
