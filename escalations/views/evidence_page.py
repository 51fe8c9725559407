"""The evidence as the decision page shows it, built from the stored evidence alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.utils.dateparse import parse_datetime

from audit import canonical
from escalations.evidence_contracts import AttemptEvidence, FactEvidence, JudgedEvidence, StepEvidence
from escalations.presenters import BoundView, Piece, bound, segments
from escalations.views import advice_shown
from runtime.contracts.states import Direction, StepState
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Difference, FigureShown, Finding, FindingOutcome
from runtime.core.views import labels
from runtime.execution.views import saga_steps
from runtime.flows.queries.saga_progress import StepShown
from runtime.kernel import effects
from runtime.proposals.views import proposal_presenters, schema_form

LONGEST_COMPARED = 200
MOST_RAW = 128
# Intents differ in the end of their ids.
LONGEST_SOURCE = 22


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding against the proposal. `liftable`: a person can override it."""

    code: str
    check: str
    subject: str
    words: str
    liftable: bool
    bound: BoundView | None


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact as captured; `now` and `material` compare it with the current one and are not evidence."""

    path: str
    value: str
    version: str
    writer: str
    source: str
    written_at: datetime | None
    digest: str
    depended_on: bool
    now: str
    material: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """A fact that the effect is expected to change. `fact` is that fact, None if it did not exist.

    `now` and `proposed_now` are its current value and the prediction that follows from the current facts,
    each empty if it is the same; `material` says that the change needs new evidence. None of it is evidence.
    """

    path: str
    current: str
    proposed: str
    fact: FactRow | None
    now: str = ""
    material: bool = False
    proposed_now: str = ""


@dataclass(frozen=True, slots=True)
class StatementView:
    """A parameter whose stated value (None: not stated) differs from the one the runtime calculates.

    `stated` and `live` are written for people. `put_in` is what a form sends to use the calculated value, ""
    if the form has no field for it; `field` and `value` are what the form then contains.
    """

    name: str
    stated: str | None
    live: str
    is_less: bool
    field: str
    value: str
    put_in: str


@dataclass(frozen=True, slots=True)
class AnswerShown:
    """The agent's answer to a person's question: unverified, with control characters made visible."""

    number: int
    question: str
    answer: str
    payload_ref: str
    answered_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt; `aim` is its purpose, if it did not execute its step."""

    number: int
    step: str
    key: str
    state: str
    error_category: str
    status_code: int | None
    detail: str
    started_at: datetime | None
    aim: str


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """What the evidence is shown beside, while it waits for a decision: none of it is evidence.

    `values` are the current facts by path, `material` the paths of those that changed materially, and
    `predicted` what the proposal would change now.
    """

    values: Mapping[str, Any]
    material: frozenset[str]
    predicted: Sequence[Difference] = ()


NOTHING_LIVE = LiveFacts(values={}, material=frozenset())


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """Everything the evidence sections show. `moved`: a fact in `difference` has changed since."""

    effect: Sequence[Piece]
    stated: Sequence[StatementView]
    difference: Sequence[Expected]
    moved: bool
    calls: Sequence[tuple[str, str]]
    reversible: bool
    undo: Sequence[str]
    crossed: Sequence[FindingView]
    passed: tuple[str, ...]
    facts: Sequence[FactRow]
    other_facts: Sequence[FactRow]
    params: Sequence[tuple[str, str]]
    constraints: Sequence[tuple[str, str]]
    confidence: str
    calibrated: advice_shown.CalibratedView | None
    advice: advice_shown.AdviceView | None
    attempts: Sequence[AttemptRow]
    steps: Sequence[saga_steps.StepRow]
    turning_back: bool
    target: str
    explain: str
    answers: Sequence[AnswerShown]
    type_again: str
    frozen_at: datetime | None
    kind: str
    kind_version: str
    manifest_version: str
    rules_digest: str
    raw: str


def read(evidence: JudgedEvidence, *, body: bytes, live: LiveFacts = NOTHING_LIVE) -> EvidenceView:
    """Build the view of the evidence; `body` is what is stored of it."""
    facts = [_fact(item, evidence.amounts, live) for item in evidence.facts]
    expected = _expected(evidence, {fact.path: fact for fact in facts}, live)
    passed = [
        f"{item.check.replace('_', ' ')}{': ' + item.subject if item.subject else ''}"
        for item in evidence.findings
        if item.outcome is FindingOutcome.PASS
    ]
    asked, kind, tried = evidence.proposal, evidence.kind, evidence.operational
    units = evidence.amounts
    return EvidenceView(
        effect=segments(evidence),
        stated=stated(evidence.figures or (), kind.params_schema, units.params),
        difference=expected,
        moved=any(item.now for item in expected),
        calls=[(item.target or item.executor, item.step) for item in kind.calls],
        reversible=kind.reversible,
        undo=kind.undo,
        crossed=[
            FindingView(
                code=item.code,
                check=item.check.replace("_", " "),
                subject=item.subject,
                words=proposal_presenters.words_of(item),
                liftable=item.outcome is not FindingOutcome.FAIL,
                bound=bound(
                    item.code,
                    item.proposed_value or "",
                    item.limit or "",
                    units.of_finding(item.check, item.subject),
                ),
            )
            for item in _by_weight(evidence)
        ],
        passed=tuple(dict.fromkeys(passed)),
        facts=[fact for fact in facts if fact.depended_on],
        other_facts=[fact for fact in facts if not fact.depended_on],
        params=proposal_presenters.pairs(asked.params, units.params),
        constraints=proposal_presenters.pairs(asked.execution_constraints, units.constraints),
        confidence="" if asked.confidence is None else f"{asked.confidence:g}",
        calibrated=advice_shown.calibrated(evidence.calibrated),
        advice=advice_shown.advice(evidence.advice, units.params),
        attempts=[] if tried is None else [_attempt(item) for item in tried.attempts],
        steps=[] if tried is None else saga_steps.of_intent([_step(item) for item in tried.steps], names={}),
        turning_back=tried is not None and tried.direction == Direction.COMPENSATE,
        target="" if tried is None else tried.target,
        explain=labels.visible_lines(evidence.explain),
        answers=[
            AnswerShown(
                number=item.number,
                question=labels.visible_lines(item.question),
                answer=labels.visible_lines(item.answer),
                payload_ref=item.payload_ref,
                answered_at=parse_datetime(item.answered_at),
            )
            for item in evidence.questions
        ],
        type_again=evidence.type_again,
        frozen_at=parse_datetime(evidence.frozen_at),
        kind=kind.kind,
        kind_version=kind.version,
        manifest_version=evidence.agent.manifest_version,
        rules_digest=evidence.policy_bundle_hash,
        raw=_raw(body),
    )


@lru_cache(maxsize=MOST_RAW)
def _raw(body: bytes) -> str:
    """Return what is stored as people read it; the same bytes are written once."""
    return labels.pretty(canonical.decode(body))


def differences(expected: Sequence[Difference], units: AmountUnits) -> list[Expected]:
    """List the expected changes of facts, without the facts themselves."""
    return [
        Expected(
            path=item.fact,
            current=_value(item.current, unit),
            proposed=_value(item.proposed, unit),
            fact=None,
        )
        for item in expected
        for unit in [units.facts.get(item.fact, "")]
    ]


def _expected(evidence: JudgedEvidence, fact_of: Mapping[str, FactRow], live: LiveFacts) -> list[Expected]:
    """List the expected changes, each with its fact, and with what became of both since."""
    proposed_now = {item.fact: item.proposed for item in live.predicted}
    shown = []
    for item in evidence.difference:
        path, fact = item.fact, fact_of.get(item.fact)
        unit = evidence.amounts.facts.get(path, "")
        moved = path in live.values and (fact is None or bool(fact.now))
        is_other = path in proposed_now and proposed_now[path] != item.proposed
        shown.append(
            Expected(
                path=path,
                current=_value(item.current, unit),
                proposed=_value(item.proposed, unit),
                fact=fact,
                now=_value(live.values[path], unit) if moved else "",
                material=moved and path in live.material,
                proposed_now=_value(proposed_now[path], unit) if is_other else "",
            )
        )
    return shown


def stated(
    figures: Sequence[FigureShown], params_schema: Mapping[str, Any], units: Mapping[str, str]
) -> list[StatementView]:
    """List the figures whose stated value is missing or differs from the calculated one."""
    differing = [item for item in figures if item.stated != item.live]
    if not differing:
        return []
    properties = params_schema.get("properties", {})
    fields = {field.name for field in schema_form.fields(params_schema, {}, None)}
    return [
        StatementView(
            name=effects.visible(str(properties.get(item.param, {}).get("title") or item.param)),
            stated=None if item.stated is None else _figure(item.stated, item.stated_text, unit),
            live=_figure(item.live, item.live_text, unit),
            is_less=not isinstance(item.stated, int | float) or item.stated < item.live,
            field=(name := f"{schema_form.PREFIX}{item.param}"),
            value=_text(item.live),
            put_in=f"{item.param}={_text(item.live)}" if name in fields else "",
        )
        for item in differing
        for unit in [units.get(item.param, "")]
    ]


def _figure(value: Any, text: str, unit: str) -> str:
    """Return what was stated or calculated with its unit; without one as the effect sentence writes it."""
    return labels.amount_in(labels.plain_value(value), unit) if unit else text


def _attempt(item: AttemptEvidence) -> AttemptRow:
    return AttemptRow(
        number=item.number,
        step=item.step,
        key=item.key,
        state=item.state,
        error_category=item.error_category,
        status_code=item.status_code,
        detail=item.detail,
        started_at=parse_datetime(item.started_at),
        aim=saga_steps.aim(direction=item.direction or "", purpose=item.purpose or ""),
    )


def _step(item: StepEvidence) -> StepShown:
    return StepShown(
        step=item.step,
        target=item.target,
        state=StepState(item.state),
        is_current=item.is_current,
        has_undo=item.has_undo,
        recorded_at=parse_datetime(item.recorded_at) if item.recorded_at else None,
        recorded_by=item.recorded_by,
    )


def _text(value: Any) -> str:
    return canonical.encode(value).decode()


def _by_weight(evidence: JudgedEvidence) -> list[Finding]:
    """Return the findings against the proposal, those that cannot be overridden first."""
    against = [item for item in evidence.findings if item.outcome is not FindingOutcome.PASS]
    return sorted(against, key=lambda item: item.outcome is not FindingOutcome.FAIL)


def _fact(item: FactEvidence, units: AmountUnits, live: LiveFacts) -> FactRow:
    unit = units.facts.get(item.path, "")
    moved = item.path in live.values and live.values[item.path] != item.value
    return FactRow(
        path=item.path,
        value=_value(item.value, unit),
        version="" if item.version is None else str(item.version),
        writer=item.writer,
        source=effects.shorten(effects.visible(item.writer), LONGEST_SOURCE),
        written_at=parse_datetime(item.written_at) if item.written_at else None,
        digest=item.digest,
        depended_on=item.depended_on,
        now=_value(live.values[item.path], unit) if moved else "",
        material=item.path in live.material,
    )


def _value(value: Any, unit: str = "") -> str:
    return effects.visible(labels.amount_in(labels.plain_value(value), unit))


@dataclass(frozen=True, slots=True)
class RevisionDiff:
    """One difference between two revisions; None if a side has no value."""

    path: str
    was: str | None
    now: str | None


def compare(before: JudgedEvidence, after: JudgedEvidence) -> list[RevisionDiff]:
    """List what a person must review again: facts, findings, predicted changes, rules and impact."""
    was, now = _lines(before), _lines(after)
    return [
        RevisionDiff(path=path, was=was.get(path), now=now.get(path))
        for path in dict.fromkeys([*was, *now])
        if was.get(path) != now.get(path)
    ]


def _lines(evidence: JudgedEvidence) -> dict[str, str]:
    units = evidence.amounts
    lines = {
        f"fact {item.path}": _value(item.value, units.facts.get(item.path, ""))
        for item in evidence.facts
        if item.depended_on
    }
    for expected in evidence.difference:
        unit = units.facts.get(expected.fact, "")
        change = f"{_value(expected.current, unit)} → {_value(expected.proposed, unit)}"
        lines[f"expected {expected.fact}"] = change
    for finding in _by_weight(evidence):
        outcome = str(finding.outcome)
        if finding.limit:
            unit = units.of_finding(finding.check, finding.subject)
            value, limit = labels.value_and_limit(
                finding.code, finding.proposed_value or "", finding.limit, unit
            )
            outcome += f": {labels.compared(finding.code, value, limit)}"
        lines[f"finding {finding.code} {finding.subject}".strip()] = outcome
    for answer in evidence.questions:
        words = _value(" ".join(answer.answer.split()))
        if len(words) > LONGEST_COMPARED:
            words = f"{words[:LONGEST_COMPARED]}…"
        lines[f"answer to question {answer.number}, unverified"] = words
    for figure in evidence.figures or ():
        unit = units.params.get(figure.param, "")
        lines[f"calculated {figure.param}"] = _figure(figure.live, figure.live_text, unit)
    lines["impact"] = evidence.impact
    lines["rules"] = evidence.policy_bundle_hash[:16]
    return lines
