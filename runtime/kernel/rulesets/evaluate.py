"""What a ruleset says of some features (IAE 3.3.2). Pure: the same ruleset and features give the same bytes.

Nothing fails open. A table without one of its inputs decides nothing; a cell, rule or policy that cannot be
evaluated is a guardrail that is triggered, and so is a policy that was not asked; rules that contradict each
other decide nothing, unless the declared strategy tells which of them counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from audit import canonical
from runtime.contracts.kind_types import Severity
from runtime.contracts.ruleset import (
    MAX_TEXT_CHARS,
    Aggregate,
    CedarAnswers,
    CedarPolicy,
    CedarRequest,
    DecidedAspect,
    DecisionTable,
    Feature,
    FeatureType,
    GuardrailTriggered,
    HitPolicy,
    MatchStatus,
    PolicyAnswer,
    ProductionRule,
    ProposedAction,
    Retransformation,
    RuleConflict,
    RuleInput,
    RuleMatch,
    RuleOutputDocument,
    RuleResult,
    RulesetDocument,
    Strategy,
    TableRule,
)
from runtime.kernel import salts
from runtime.kernel.rules import cel_tokens, language
from runtime.kernel.rules.language import ErrorCode, ExpressionError
from runtime.kernel.rulesets import tables
from runtime.kernel.rulesets.tables import CellFailedError, Table

SCHEMA_VERSION = "1.0"
# The guardrail of a ruleset with `must_permit`.
NO_PERMIT = "NO_PERMIT"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one table or rule says about an aspect, and what a strategy compares."""

    aspect: str
    actions: tuple[ProposedAction, ...]
    matches: tuple[RuleMatch, ...]
    specificity: int

    @property
    def rule_ids(self) -> tuple[str, ...]:
        """The rules behind it."""
        return tuple(match.rule_id for match in self.matches)

    @property
    def certainty(self) -> float:
        """The least certainty of its rules."""
        return min(match.certainty for match in self.matches)

    def rank(self, strategy: Strategy) -> int:
        """How it stands under a strategy: the greater counts."""
        match strategy:
            case Strategy.MANDATORY:
                return int(any(match.mandatory for match in self.matches))
            case Strategy.PRIORITY:
                return max(match.priority for match in self.matches)
            case _:
                return self.specificity


@dataclass(slots=True)
class _Found:
    candidates: list[Candidate] = field(default_factory=list)
    guardrails: list[GuardrailTriggered] = field(default_factory=list)
    conflicts: list[RuleConflict] = field(default_factory=list)


def evaluate(
    ruleset: RulesetDocument,
    features: Mapping[str, Any],
    ages_s: Mapping[str, int] | None = None,
    cedar: CedarAnswers | None = None,
) -> RuleResult:
    """Evaluate a ruleset that the linter accepts, over values that fit its features (see `misfits`).

    `ages_s` are the ages of features in seconds, where they are known: one that is too old counts as missing.
    `cedar` is what its policies said of `current` features.
    """
    gaps = tuple(_gaps(ruleset, features, ages_s or {}))
    known = _without(features, gaps)
    found = _Found()
    for table in tables.compiled(ruleset):
        _read_table(found, table, ruleset, known)
    names = language.Names({"features": known})
    for rule in ruleset.rules:
        if _holds(found, rule.id, rule.when, names):
            match = _match(rule, ruleset, rule.decides)
            found.candidates.append(Candidate(rule.decides, (rule.then,), (match,), _breadth(rule.when)))
    for guard in ruleset.guardrails:
        _read_guardrail(found, guard.id, guard.forbid, guard.severity, guard.message, names)
    if ruleset.cedar_request is not None:
        _read_policies(found, ruleset, ruleset.cedar_request, cedar)
    decided, winners = _decide(ruleset, found)
    declared = ruleset.declared
    matches = sorted(
        (match for candidate in found.candidates for match in candidate.matches),
        key=lambda match: (match.decides, match.rule_id not in winners, -match.priority, match.rule_id),
    )
    confidence = min((aspect.certainty for aspect in decided), default=0.0)
    is_open = any(not conflict.resolved_by for conflict in found.conflicts)
    is_sure = bool(decided) and not is_open and confidence >= ruleset.high_confidence
    covered = {aspect.aspect for aspect in decided}
    return RuleResult(
        status=(MatchStatus.HIGH if is_sure else MatchStatus.LOW) if matches else MatchStatus.NONE,
        matches=tuple(matches),
        guardrails_triggered=tuple(found.guardrails),
        conflicts=tuple(found.conflicts),
        decided=tuple(decided),
        residuals=tuple(aspect for aspect in declared if aspect not in covered),
        coverage=len(covered.intersection(declared)) / len(declared) if declared else 1.0,
        confidence_rule=confidence,
        requested_retransformations=gaps,
    )


def output(ruleset: RulesetDocument, asked: RuleInput) -> RuleOutputDocument:
    """The Rule Engine Output of a stored input; the same input always gives the same bytes.

    Raises:
        ValueError: when the ruleset is not the one that the input names.
    """
    if ruleset.digest != asked.ruleset_digest:
        raise ValueError("the ruleset is not the one that was asked")
    result = evaluate(ruleset, asked.features, asked.ages_s, asked.cedar)
    return RuleOutputDocument(
        **dict(result),
        rule_output_id=asked.rule_output_id,
        schema_version=SCHEMA_VERSION,
        ruleset=ruleset.ruleset,
        ruleset_version=ruleset.version,
        trace_ref=f"/api/v1/audit/contracts/reasoning_trace/{asked.dfid}",
        salt=salts.derive(asked.salt, of="rule_output"),
    )


def current(
    ruleset: RulesetDocument, features: Mapping[str, Any], ages_s: Mapping[str, int]
) -> dict[str, Any]:
    """The features without those that are too old."""
    return _without(features, tuple(_gaps(ruleset, features, ages_s)))


def misfits(ruleset: RulesetDocument, features: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The features that the ruleset does not have, or of another type: the name, and what is wrong."""
    return tuple(
        (name, "is no feature of the ruleset" if kind is None else f"must be {kind.type}")
        for name, value in features.items()
        if (kind := ruleset.features.get(name)) is None or not fits(kind, value)
    )


def fits(feature: Feature, value: Any) -> bool:
    """Whether a value is of the feature's type."""
    match feature.type:
        case FeatureType.BOOLEAN:
            return isinstance(value, bool)
        case FeatureType.STRING:
            return isinstance(value, str) and len(value) <= MAX_TEXT_CHARS
        case FeatureType.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _without(features: Mapping[str, Any], gaps: Iterable[Retransformation]) -> dict[str, Any]:
    missing = {gap.feature_gap for gap in gaps}
    return {name: value for name, value in features.items() if name not in missing}


def _gaps(
    ruleset: RulesetDocument, features: Mapping[str, Any], ages_s: Mapping[str, int]
) -> Iterator[Retransformation]:
    # As in the stored bytes, however the document was written.
    for name, feature in sorted(ruleset.features.items()):
        if name not in features:
            yield Retransformation(feature_gap=name, suggested_scope=f"Give the feature {name}.")
        elif feature.max_age_s is not None and ages_s.get(name, 0) > feature.max_age_s:
            scope = f"Read {name} again: it is older than {feature.max_age_s} s."
            yield Retransformation(feature_gap=name, suggested_scope=scope)


def _read_table(found: _Found, table: Table, ruleset: RulesetDocument, known: Mapping[str, Any]) -> None:
    if table.missing(known):
        return
    source = table.source
    try:
        hits = table.matching(known)
    except CellFailedError as error:
        _failed(found, source.rules[error.rule].id, error.message)
        return
    rules = [source.rules[at] for at in hits]
    if not rules:
        return
    taken = _taken(source, rules)
    actions = _actions(source, taken)
    if actions is None:
        ids = tuple(sorted(rule.id for rule in rules))
        said = _AGAINST[source.hit].format(table=source.table, count=len(rules))
        hint = "The table decides nothing. Change its rules, or ask a person."
        found.conflicts.append(RuleConflict(rule_ids=ids, rationale=said, resolution_hint=hint))
        return
    matches = tuple(_match(rule, ruleset, source.decides) for rule in taken)
    taken_ids = {rule.id for rule in taken}
    breadth = max(table.specificity[at] for at, rule in enumerate(source.rules) if rule.id in taken_ids)
    found.candidates.append(Candidate(source.decides, actions, matches, breadth))


_AGAINST = {
    HitPolicy.UNIQUE: "{count} rules of the table {table} match, and its hit policy is UNIQUE.",
    HitPolicy.ANY: "Rules of the table {table} match and say different things; its hit policy is ANY.",
    HitPolicy.COLLECT: "What rules of the table {table} give cannot be made one number.",
}


def _taken(table: DecisionTable, rules: Sequence[TableRule]) -> list[TableRule]:
    """The rules that count by the hit policy; what counts of them together is for `_actions`."""
    match table.hit:
        case HitPolicy.FIRST:
            return [rules[0]]
        case HitPolicy.PRIORITY:
            return [min(rules, key=lambda rule: table.output_values.index(rule.then.action))]
        case HitPolicy.RULE_ORDER:
            return list(rules)
        case _:
            return sorted(rules, key=lambda rule: rule.id)


def _actions(table: DecisionTable, rules: Sequence[TableRule]) -> tuple[ProposedAction, ...] | None:
    """What the rules give together; None where they contradict each other."""
    first = rules[0].then
    match table.hit:
        case HitPolicy.UNIQUE:
            return (first,) if len(rules) == 1 else None
        case HitPolicy.ANY:
            return (first,) if all(is_same(rule.then, first) for rule in rules) else None
        case HitPolicy.COLLECT if table.of is not None:
            number = _aggregate(table.aggregate, table.of, rules)
            if number is None or any(rule.then.action != first.action for rule in rules):
                return None
            return (ProposedAction(action=first.action, params={table.of: number}),)
        case _:
            return tuple(rule.then for rule in rules)


def _aggregate(how: Aggregate, param: str, rules: Sequence[TableRule]) -> Any:
    """One number of the parameter of all rules, exactly; None where one of them has no number there."""
    if how is Aggregate.COUNT:
        return len(rules)
    values = [rule.then.params.get(param) for rule in rules]
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return None
    exact = [exactly(value) for value in values]
    if how is Aggregate.SUM:
        whole = sum(exact, start=Fraction(0))
    else:
        whole = min(exact) if how is Aggregate.MIN else max(exact)
    return plain_number(whole) if abs(whole) <= canonical.MAX_SAFE_INTEGER else None


def exactly(value: Any) -> Fraction:
    """The number that is written: 0.1 is a tenth. Sums of these lose nothing, in whatever order."""
    return Fraction(str(value))


def plain_number(value: Fraction) -> int | float:
    """An exact number within the safe integers as the one that JSON writes it as."""
    return int(value) if value.denominator == 1 else float(value)


def is_same(one: ProposedAction, other: ProposedAction) -> bool:
    """Whether two actions are the same: by bytes, since Python holds True equal to 1."""
    return one.to_bytes() == other.to_bytes()


def _match(rule: TableRule | ProductionRule, ruleset: RulesetDocument, aspect: str) -> RuleMatch:
    return RuleMatch(
        rule_id=rule.id,
        rule_version=rule.version or ruleset.version,
        action_proposal=rule.then,
        certainty=rule.certainty,
        priority=rule.priority,
        mandatory=rule.mandatory,
        justification=rule.justification or "",
        decides=aspect,
    )


def _holds(found: _Found, rule: str, when: str, names: language.Names) -> bool:
    try:
        return language.require(when, names)
    except ExpressionError as error:
        # A feature that is not there is asked for elsewhere; everything else is a fault of the rule.
        if error.code is not ErrorCode.UNKNOWN_FIELD:
            _failed(found, rule, error.message)
        return False


def _read_guardrail(
    found: _Found, name: str, forbid: str, severity: Severity, message: str | None, names: language.Names
) -> None:
    try:
        if not language.require(forbid, names):
            return
        detail = message or f"{name} does not hold."
    except ExpressionError as error:
        detail = f"{name} could not be evaluated: {error.message}."
    found.guardrails.append(GuardrailTriggered(invariant_id=name, severity=severity, detail=detail))


def _read_policies(
    found: _Found, ruleset: RulesetDocument, request: CedarRequest, said: CedarAnswers | None
) -> None:
    answers, kind = ({}, "") if said is None else (said.answers, said.policy_kind)
    for policy in ruleset.policies:
        match answers.get(policy.id):
            case PolicyAnswer.PERMITS:
                then = ProposedAction(action=kind)
                permit = _permit(policy, ruleset, then)
                found.candidates.append(Candidate(policy.decides, (then,), (permit,), 0))
            case PolicyAnswer.SILENT:
                pass
            case PolicyAnswer.FORBIDS:
                _trigger(found, policy, policy.message or f"The policy {policy.id} forbids it.")
            case PolicyAnswer.FAILED:
                _trigger(found, policy, f"The policy {policy.id} could not be evaluated.")
            case _:
                _trigger(found, policy, f"The policy {policy.id} was not asked of cedarpy {request.cedarpy}.")
    if request.must_permit and PolicyAnswer.PERMITS not in answers.values():
        found.guardrails.append(
            GuardrailTriggered(invariant_id=NO_PERMIT, severity=Severity.HIGH, detail="No policy permits it.")
        )


def _permit(policy: CedarPolicy, ruleset: RulesetDocument, then: ProposedAction) -> RuleMatch:
    return RuleMatch(
        rule_id=policy.id,
        rule_version=ruleset.version,
        action_proposal=then,
        certainty=1.0,
        priority=0,
        mandatory=False,
        justification=policy.justification or "",
        decides=policy.decides,
    )


def _trigger(found: _Found, policy: CedarPolicy, detail: str) -> None:
    triggered = GuardrailTriggered(invariant_id=policy.id, severity=policy.severity, detail=detail)
    found.guardrails.append(triggered)


def _failed(found: _Found, rule: str, message: str) -> None:
    detail = f"The rule {rule} could not be evaluated: {message}."
    found.guardrails.append(GuardrailTriggered(invariant_id=rule, severity=Severity.HIGH, detail=detail))


def _decide(ruleset: RulesetDocument, found: _Found) -> tuple[list[DecidedAspect], frozenset[str]]:
    """The aspects that are decided, and the rules that decided them; notes what contradicts."""
    decided, winners = [], set[str]()
    by_aspect: dict[str, list[Candidate]] = {name: [] for name in ruleset.declared}
    for candidate in found.candidates:
        by_aspect.setdefault(candidate.aspect, []).append(candidate)
    for aspect, candidates in by_aspect.items():
        left = resolve(candidates, ruleset.strategy, found.conflicts.append)
        if not left:
            continue
        ids = tuple(dict.fromkeys(rule for candidate in left for rule in candidate.rule_ids))
        winners.update(ids)
        certainty = min(candidate.certainty for candidate in left)
        decided.append(
            DecidedAspect(aspect=aspect, actions=left[0].actions, rule_ids=ids, certainty=certainty)
        )
    return decided, frozenset(winners)


def resolve(
    candidates: Sequence[Candidate],
    strategies: Iterable[Strategy],
    note: Callable[[RuleConflict], None],
) -> Sequence[Candidate]:
    """The candidates that count, which all say the same; none where nothing tells which of them does.

    `note` is given the conflict between those that say different things, if there is one.
    """
    if not candidates or _agree(candidates):
        return candidates
    ids = tuple(sorted(rule for candidate in candidates for rule in candidate.rule_ids))
    said = f"They say different things about {candidates[0].aspect}."
    left = list(candidates)
    for strategy in strategies:
        most = max(candidate.rank(strategy) for candidate in left)
        left = [candidate for candidate in left if candidate.rank(strategy) == most]
        if _agree(left):
            names = ", ".join(rule for candidate in left for rule in candidate.rule_ids)
            note(
                RuleConflict(
                    rule_ids=ids,
                    rationale=said,
                    resolution_hint=f"{names} counts by {strategy}.",
                    resolved_by=strategy,
                )
            )
            return left
    hint = "No declared strategy tells them apart: ask a person."
    note(RuleConflict(rule_ids=ids, rationale=said, resolution_hint=hint))
    return ()


def _agree(candidates: Sequence[Candidate]) -> bool:
    first = [action.to_bytes() for action in candidates[0].actions]
    return all([action.to_bytes() for action in other.actions] == first for other in candidates[1:])


@lru_cache(maxsize=1024)
def _breadth(when: str) -> int:
    """How specific a rule is: of how many features it speaks."""
    return len(features_read(when))


@lru_cache(maxsize=1024)
def features_read(source: str) -> frozenset[str]:
    """The features that an expression reads as `features.name`."""
    words = [token.text for token in cel_tokens.tokenize(source)]
    return frozenset(
        words[at + 2]
        for at in range(len(words) - 2)
        if words[at : at + 2] == ["features", "."] and (not at or words[at - 1] != ".")
    )
