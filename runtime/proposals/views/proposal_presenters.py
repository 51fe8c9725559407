"""Proposals, verdicts and intents as the timeline shows them beside its entries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from audit import actors, canonical
from runtime.contracts.calibration import WHOLE_CONFIDENCE
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.core.views import labels, times
from runtime.core.views.labels import Badge
from runtime.flows.models import Intent, Proposal, Verdict
from runtime.kernel import effects, finding_words
from runtime.kernel.gate import case_units
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.proposals.views import predicted_effects
from runtime.proposals.views.predicted_effects import EffectView

_NO_UNITS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class FindingRow:
    """One reason of a verdict, with the two values it compared."""

    code: str
    check: str
    outcome: str
    subject: str
    words: str
    value: str
    limit: str


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposal with its verdict."""

    id: str
    author: str
    by_person: bool
    kind: str
    version: str
    received_at: datetime
    valid_until: datetime
    params: list[tuple[str, str]]
    confidence: str
    # What an active calibration map made of it; empty where none was asked.
    calibrated: str
    explain: str
    expected: list[tuple[str, str]]
    fact_units: Mapping[str, str]
    verdict: Badge | None
    findings: list[FindingRow]
    body: str


def shown(proposal: Proposal, names: Mapping[str, str]) -> ProposalView:
    """Return the proposal from its stored bytes; its `explain` stays unverified."""
    body = canonical.decode(bytes(proposal.body))
    verdict = getattr(proposal, "verdict", None)
    answer = VerdictDocument.from_bytes(bytes(verdict.body)) if verdict else None
    found, used = ((), None) if answer is None else (answer.findings, answer.calibrated)
    units = _units_of(verdict) if verdict else AmountUnits()
    confidence = body.get("confidence")
    return ProposalView(
        id=str(proposal.proposal_id),
        author=labels.actor_words(proposal.author, names),
        by_person=actors.is_user(proposal.author),
        kind=proposal.policy_kind,
        version=proposal.policy_version,
        received_at=proposal.received_at,
        valid_until=proposal.valid_until,
        params=pairs(body.get("params"), units.params),
        confidence="" if confidence is None else f"{confidence:g}",
        calibrated="" if used is None else f"{used.mapped / WHOLE_CONFIDENCE:g}",
        explain=labels.visible_lines(proposal.explain),
        expected=expected(proposal, units.facts),
        fact_units=units.facts,
        verdict=labels.badge(labels.VERDICTS, verdict.decision) if verdict else None,
        findings=findings(found, units),
        body=labels.pretty(body),
    )


def pairs(value: Any, units: Mapping[str, str] = _NO_UNITS) -> list[tuple[str, str]]:
    """Return a JSON object as names and values, amounts with their unit, invisible characters escaped."""
    if not isinstance(value, dict):
        return []
    return [
        (effects.visible(str(name)), effects.visible(labels.amount(item, units.get(name, ""))))
        for name, item in value.items()
    ]


def expected(proposal: Proposal, units: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what the agent expects to change. Unverified: the runtime compares the kind's prediction."""
    said = canonical.decode(bytes(proposal.body)).get("expected_effects")
    if not isinstance(said, list):
        return pairs(said, units)
    named = [item for item in said if isinstance(item, dict) and item.keys() == {"fact", "value"}]
    if len(named) == len(said):
        return [pair for item in named for pair in pairs({str(item["fact"]): item["value"]}, units)]
    return pairs({str(number): item for number, item in enumerate(said, 1)})


def findings(found: Iterable[Finding], units: AmountUnits) -> list[FindingRow]:
    """Return the findings of a verdict that did not pass."""
    return [
        FindingRow(
            code=item.code,
            check=item.check,
            outcome=item.outcome,
            subject=item.subject,
            words=words_of(item),
            value=value,
            limit=limit,
        )
        for item in found
        if item.outcome is not FindingOutcome.PASS
        for unit in [units.of_finding(item.check, item.subject)]
        for value, limit in [
            labels.value_and_limit(item.code, item.proposed_value or "", item.limit or "", unit)
        ]
    ]


def words_of(finding: Finding) -> str:
    """Return what a finding says beside its two amounts, which are shown once, with their unit."""
    words = "" if finding_words.is_excess(finding) else finding.message
    return effects.visible(words) or labels.meaning(finding.code)


def _units_of(verdict: Verdict) -> AmountUnits:
    """Return the units of the rules and resources that a verdict was judged with."""
    rules = PolicyBundle.from_bytes(bytes(verdict.bundle.body))
    return case_units.of_case(rules.kind, Judgement.from_bytes(bytes(verdict.input)))


@dataclass(frozen=True, slots=True)
class WrittenFactView:
    """A fact that a step took from its receipt; `before` is empty if there was none."""

    fact: str
    version: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class IntentShown:
    """An intent, its outcome and the receipt; deviations as sentences."""

    id: str
    attempts: int
    failures: int
    outcome: Badge | None
    receipt: str
    effects: Sequence[EffectView]
    writes: list[WrittenFactView]
    deviations: list[str]
    recorded_at: datetime | None
    took: str


def intent_shown(intent: Intent, units: Mapping[str, str]) -> IntentShown:
    """Return the intent with its outcome, if it has one; `units` are those of its facts, by path."""
    outcome = getattr(intent, "outcome", None)
    receipt = ""
    if outcome and outcome.receipt is not None:
        receipt = labels.pretty(canonical.decode(bytes(outcome.receipt)))
    changes = canonical.decode(bytes(outcome.writes)) if outcome else []
    deviations = canonical.decode(bytes(outcome.deviations)) if outcome else []
    return IntentShown(
        id=str(intent.intent_id),
        attempts=intent.attempts,
        failures=intent.failures,
        outcome=labels.badge(labels.OUTCOMES, outcome.status) if outcome else None,
        receipt=receipt,
        effects=predicted_effects.of_intent(intent, units),
        writes=[
            WrittenFactView(
                fact=change["fact"],
                version=change["version"],
                before="" if change["version"] == 1 else labels.amount_in(_value(change["before"]), unit),
                after=labels.amount_in(_value(change["after"]), unit),
            )
            for change in changes
            for unit in [units.get(change["fact"], "")]
        ],
        deviations=[
            f"{item['code']} at {item['fact']}: {item['why']}"
            + (f", it is {item['observed']}" if item["observed"] is not None else "")
            if item.get("code")
            else f"{item['fact']}: not written, {item['why']}"
            if item.get("why")
            else f"{item['fact']}: expected {labels.amount_in(_value(item['expected']), unit)}, "
            f"observed {labels.amount_in(_value(item['observed']), unit)}"
            for item in deviations
            for unit in [units.get(item["fact"], "")]
        ],
        recorded_at=outcome.recorded_at if outcome else None,
        took=times.span(timedelta(milliseconds=outcome.duration_ms)) if outcome else "",
    )


def _value(value: Any) -> str:
    return effects.visible(labels.plain_value(value))
