"""What a DecisionRecord takes from the rules behind a verdict: subjects, gates, controls, versions."""

from collections.abc import Iterable, Mapping
from typing import Any

from audit import cells
from audit.records.fold import Rules
from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import ApprovalMode, KindDocument
from runtime.contracts.verdict import VerdictDocument
from runtime.flows.models import Verdict
from runtime.kernel.gate.gate_input import Case, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.rules import templates
from runtime.kernel.rules.language import ExpressionError


def of(case: Case, verdict: VerdictDocument) -> Rules:
    """Of what was judged; the same always, from the same bytes."""
    kind, manifest = case.rules.kind, case.rules.manifest
    if kind is None:
        return Rules(
            manifest=None if manifest is None else manifest.version,
            model_profile=None if manifest is None else manifest.model_profile,
            evaluator_suite=None if manifest is None else manifest.evaluator_suite,
        )
    subjects = subjects_of(case)
    return Rules(
        intent_ref=kind.category or kind.kind,
        subject_ids=tuple(dict.fromkeys(name for name in subjects.values() if name)),
        unresolved=tuple(template for template, name in subjects.items() if not name),
        bounds=tuple(dict.fromkeys(item.subject for item in verdict.reasons if item.subject)),
        gate_id=kind.gate_id,
        approvals=kind.people_needed,
        is_reversible=kind.reversible and kind.least_approval is not ApprovalMode.DESTRUCTIVE,
        must_refuse=tuple(_bounds(kind, OnFail.REJECT)),
        must_escalate=tuple(_bounds(kind, OnFail.ESCALATE)),
        redactions=tuple(rule.id for rule in kind.redact),
        manifest=None if manifest is None else manifest.version,
        model_profile=None if manifest is None else manifest.model_profile,
        evaluator_suite=None if manifest is None else manifest.evaluator_suite,
        reversals={
            step.step: step.compensation.key for step in verdict.steps if step.compensation is not None
        },
        scoring=None if kind.scorecard is None else kind.scorecard.model_dump(mode="json"),
    )


def subjects_of(case: Case) -> dict[str, str]:
    """What the case is about, by the kind's template; empty where a template makes nothing of it."""
    kind = case.rules.kind
    return {} if kind is None else {template: _subject(template, case) for template in kind.subjects}


def find_stored(said: Mapping[str, Any]) -> Rules:
    """Of the verdict whose entry says this, from its rows.

    Of rows that are gone or hold other documents there is nothing to take: the flow can still be ended, and
    `verify_ledger` names them.
    """
    row = Verdict.objects.select_related("bundle").filter(proposal=said["proposal_id"]).first()
    if row is None:
        return Rules()
    held = [cells.bytes_of(cell) or b"" for cell in (row.input, row.bundle.body, row.body)]
    try:
        return read(judgement=held[0], rules=held[1], verdict=held[2])
    except ValueError:
        return Rules()


def read(*, judgement: bytes, rules: bytes, verdict: bytes) -> Rules:
    """Of the stored bytes. Raises ValueError for bytes that are none of these documents."""
    asked = Judgement.from_bytes(judgement)
    case = Case(
        proposal=asked.proposal,
        facts=asked.facts,
        rules=PolicyBundle.from_bytes(rules),
        now_ms=asked.now_ms,
        gate=asked.gate_version,
    )
    return of(case, VerdictDocument.from_bytes(verdict))


def _subject(template: str, case: Case) -> str:
    """What a template makes of the proposal; empty where it makes nothing."""
    if not case.is_evaluated:
        return ""
    try:
        return templates.name(template, case.names)
    except ExpressionError:
        return ""


def _bounds(kind: KindDocument, leads_to: OnFail) -> Iterable[str]:
    """The ids of the kind's bounds that lead to a refusal, or to people."""
    yield from (limit.id for limit in kind.limits if limit.on_exceed is leads_to)
    yield from (rule.id for rule in kind.rules if rule.on_fail is leads_to)
    if leads_to is OnFail.REJECT:
        yield from (constraint.id for constraint in kind.constraints)
        yield from (line.id for line in kind.forbidden)
