"""The evidence as the decision page shows it, built from the stored bundle alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from audit import canonical
from escalations.presenters import BoundView, Piece, bound, segments, units_of
from runtime.contracts.states import Direction
from runtime.contracts.verdict import FindingOutcome
from runtime.core.views import labels
from runtime.execution.views import saga_steps
from runtime.kernel import effects
from runtime.proposals.views import proposal_presenters, schema_form

Bundle = Mapping[str, Any]
LONGEST_COMPARED = 200
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


_NO_FACTS: Mapping[str, FactRow] = {}


@dataclass(frozen=True, slots=True)
class Expected:
    """A fact that the effect is expected to change. `fact` is that fact, None if it does not exist."""

    path: str
    current: str
    proposed: str
    fact: FactRow | None


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
class EvidenceView:
    """Everything the evidence sections show."""

    effect: Sequence[Piece]
    stated: Sequence[StatementView]
    difference: Sequence[Expected]
    calls: Sequence[tuple[str, str]]
    reversible: bool
    undo: Sequence[str]
    crossed: Sequence[FindingView]
    passed: Sequence[str]
    facts: Sequence[FactRow]
    other_facts: Sequence[FactRow]
    params: Sequence[tuple[str, str]]
    constraints: Sequence[tuple[str, str]]
    confidence: str
    attempts: Sequence[Mapping[str, Any]]
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


def read(bundle: Bundle, *, live: Mapping[str, Any], material: frozenset[str]) -> EvidenceView:
    """Read a bundle. `live` holds the current facts, `material` the paths that changed materially."""
    facts = [_fact(item, live, material) for item in bundle["facts"]]
    fact_of = {fact.path: fact for fact in facts}
    passed = [
        f"{item['check'].replace('_', ' ')}{': ' + item['subject'] if item['subject'] else ''}"
        for item in bundle["findings"]
        if item["outcome"] == FindingOutcome.PASS
    ]
    asked, kind = bundle["proposal"], bundle["kind"]
    confidence = asked["confidence"]
    operational = bundle["operational"] or {}
    units = units_of(bundle)
    return EvidenceView(
        effect=segments(bundle),
        stated=[]
        if "figures" not in bundle
        else stated(bundle["figures"], kind["params_schema"], units.params),
        difference=differences(bundle["difference"], fact_of),
        calls=[(item["target"] or item["executor"], item["step"]) for item in kind["calls"]],
        reversible=bool(kind["reversible"]),
        undo=[str(step) for step in kind["undo"]],
        crossed=[
            FindingView(
                code=item["code"],
                check=item["check"].replace("_", " "),
                subject=item["subject"],
                words=proposal_presenters.words_of(item),
                liftable=item["outcome"] != FindingOutcome.FAIL,
                bound=bound(
                    item["proposed_value"] or "",
                    item["limit"] or "",
                    units.of_finding(item["check"], item["subject"]),
                ),
            )
            for item in _by_weight(bundle)
        ],
        passed=list(dict.fromkeys(passed)),
        facts=[fact for fact in facts if fact.depended_on],
        other_facts=[fact for fact in facts if not fact.depended_on],
        params=proposal_presenters.pairs(asked["params"], units.params),
        constraints=proposal_presenters.pairs(asked["execution_constraints"], units.constraints),
        confidence="" if confidence is None else f"{confidence:g}",
        attempts=[
            {**item, "started_at": parse_datetime(item["started_at"]), "aim": saga_steps.aim(item)}
            for item in operational.get("attempts", ())
        ],
        steps=saga_steps.of_evidence(operational),
        turning_back=operational.get("direction") == Direction.COMPENSATE,
        target=operational.get("target", ""),
        explain=labels.visible_lines(bundle["explain"]),
        answers=[
            AnswerShown(
                number=item["number"],
                question=labels.visible_lines(item["question"]),
                answer=labels.visible_lines(item["answer"]),
                payload_ref=item["payload_ref"],
                answered_at=parse_datetime(item["answered_at"]),
            )
            for item in bundle.get("questions", ())
        ],
        type_again=bundle["type_again"],
        frozen_at=parse_datetime(bundle["frozen_at"]),
        kind=kind["kind"],
        kind_version=kind["version"],
        manifest_version=bundle["agent"]["manifest_version"],
        rules_digest=bundle["policy_bundle_hash"],
        raw=labels.pretty(bundle),
    )


def differences(
    expected: Sequence[Mapping[str, Any]], fact_of: Mapping[str, FactRow] = _NO_FACTS
) -> list[Expected]:
    """List the expected changes of facts, each beside the fact of `fact_of` that it is about."""
    return [
        Expected(
            path=item["fact"],
            current=_value(item["current"]),
            proposed=_value(item["proposed"]),
            fact=fact_of.get(item["fact"]),
        )
        for item in expected
    ]


def stated(
    figures: Sequence[Mapping[str, Any]], params_schema: Mapping[str, Any], units: Mapping[str, str]
) -> list[StatementView]:
    """List the figures whose stated value is missing or differs from the calculated one."""
    properties = params_schema.get("properties", {})
    fields = {field.name for field in schema_form.fields(params_schema, {}, None)}
    return [
        StatementView(
            name=effects.visible(str(properties.get(item["param"], {}).get("title") or item["param"])),
            stated=None if item["stated"] is None else _figure(item, "stated", units),
            live=_figure(item, "live", units),
            is_less=not isinstance(item["stated"], int | float) or item["stated"] < item["live"],
            field=(name := f"{schema_form.PREFIX}{item['param']}"),
            value=_text(item["live"]),
            put_in=f"{item['param']}={_text(item['live'])}" if name in fields else "",
        )
        for item in figures
        if item["stated"] != item["live"]
    ]


def _figure(item: Mapping[str, Any], side: str, units: Mapping[str, str]) -> str:
    """Return what was stated or calculated with its unit; without one as the effect sentence writes it."""
    unit = units.get(item["param"], "")
    return labels.amount_in(labels.plain_value(item[side]), unit) if unit else str(item[f"{side}_text"])


def _text(value: Any) -> str:
    return canonical.encode(value).decode()


def _by_weight(bundle: Bundle) -> list[Mapping[str, Any]]:
    """Return the findings against the proposal, those that cannot be overridden first."""
    against = [item for item in bundle["findings"] if item["outcome"] != FindingOutcome.PASS]
    return sorted(against, key=lambda item: item["outcome"] != FindingOutcome.FAIL)


def _fact(item: Mapping[str, Any], live: Mapping[str, Any], material: frozenset[str]) -> FactRow:
    path = item["path"]
    moved = path in live and live[path] != item["value"]
    return FactRow(
        path=path,
        value=_value(item["value"]),
        version="" if item["version"] is None else str(item["version"]),
        writer=item["writer"],
        source=effects.shorten(effects.visible(item["writer"]), LONGEST_SOURCE),
        written_at=parse_datetime(item["written_at"]) if item["written_at"] else None,
        digest=item["digest"],
        depended_on=item["depended_on"],
        now=_value(live[path]) if moved else "",
        material=path in material,
    )


def _value(value: Any) -> str:
    return effects.visible(labels.number(labels.plain_value(value)))


@dataclass(frozen=True, slots=True)
class RevisionDiff:
    """One difference between two revisions; None if a side has no value."""

    path: str
    was: str | None
    now: str | None


def compare(before: Bundle, after: Bundle) -> list[RevisionDiff]:
    """List what a person must review again: facts, findings, predicted changes, rules and impact."""
    was, now = _told(before), _told(after)
    return [
        RevisionDiff(path=path, was=was.get(path), now=now.get(path))
        for path in dict.fromkeys([*was, *now])
        if was.get(path) != now.get(path)
    ]


def _told(bundle: Bundle) -> dict[str, str]:
    units = units_of(bundle)
    told = {f"fact {item['path']}": _value(item["value"]) for item in bundle["facts"] if item["depended_on"]}
    for item in bundle["difference"]:
        told[f"expected {item['fact']}"] = f"{_value(item['current'])} → {_value(item['proposed'])}"
    for item in _by_weight(bundle):
        numbers = ""
        if item["limit"]:
            unit = units.of_finding(item["check"], item["subject"])
            value, limit = (labels.amount_in(item[name] or "", unit) for name in ("proposed_value", "limit"))
            numbers = f" ({labels.compared(item['code'], value, limit)})"
        told[f"finding {item['code']} {item['subject']}".strip()] = f"{item['outcome']}{numbers}"
    for item in bundle.get("questions", ()):
        words = _value(" ".join(item["answer"].split()))
        if len(words) > LONGEST_COMPARED:
            words = f"{words[:LONGEST_COMPARED]}…"
        told[f"answer to question {item['number']}, unverified"] = words
    for item in bundle.get("figures", ()):
        told[f"calculated {item['param']}"] = _figure(item, "live", units.params)
    told["impact"] = bundle["impact"]
    told["rules"] = bundle["policy_bundle_hash"][:16]
    return told
