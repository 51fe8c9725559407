"""A kind's expressions over one set of names: rules, limits, bounds, impact, freshness, predictions.

Pure. Every function that judges returns results and never raises: an expression that errors is a result
of its own, which the gate turns into a Fail.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from audit import canonical
from runtime.contracts import states
from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import Constraint, Dependency, EvidenceNeed, KindDocument, Rule
from runtime.kernel import finding_words
from runtime.kernel.rules import kind_checkers, language, safety, templates
from runtime.kernel.rules.language import ErrorCode, ExpressionError


class EvaluationStatus(StrEnum):
    """How a condition came out."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule or constraint, judged. `message` is empty when it passed."""

    id: str
    status: EvaluationStatus
    message: str
    on_fail: OnFail


@dataclass(frozen=True, slots=True)
class EvaluatedBound:
    """A limit, judged: the two values of its expressions, None where one gave none."""

    id: str
    status: EvaluationStatus
    message: str
    value: int | float | str | None
    limit: int | float | str | None
    on_exceed: OnFail


class Move(StrEnum):
    """What became of a fact since it was seen."""

    SAME = "SAME"
    WITHIN_BOUNDS = "WITHIN_BOUNDS"
    MOVED = "MOVED"
    MISSING = "MISSING"
    UNREADABLE = "UNREADABLE"


FRESH = frozenset({Move.SAME, Move.WITHIN_BOUNDS})


@dataclass(frozen=True, slots=True)
class Freshness:
    """A dependency, judged. `fact` is the template where no path could be made of it."""

    fact: str
    move: Move
    seen: Any = None
    current: Any = None


@dataclass(frozen=True, slots=True)
class Predicted:
    """The value that a fact is expected to have after the effect."""

    fact: str
    value: Any


def judge_rules(kind: KindDocument, names: language.Names) -> tuple[Condition, ...]:
    """Every rule of the kind, in its order."""
    return tuple(_condition(rule, names, rule.on_fail) for rule in kind.rules)


def judge_constraints(kind: KindDocument, names: language.Names) -> tuple[Condition, ...]:
    """Every constraint of the kind: the agent's own bounds against live facts."""
    return tuple(_condition(constraint, names, OnFail.REJECT) for constraint in kind.constraints)


def judge_limits(kind: KindDocument, names: language.Names) -> tuple[EvaluatedBound, ...]:
    """Every limit of the kind; numbers and decimal strings are compared exactly."""
    bounds = []
    for limit in kind.limits:
        value, value_error = amount(limit.value, names)
        bound, bound_error = amount(limit.limit, names)
        error = value_error or bound_error
        status, message = EvaluationStatus.PASSED, ""
        if error or value is None or bound is None:
            status, message = EvaluationStatus.ERROR, f"could not be evaluated: {error}"
        elif Decimal(str(value)) > Decimal(str(bound)):
            status, message = EvaluationStatus.FAILED, limit.message or finding_words.excess(value, bound)
        bounds.append(
            EvaluatedBound(
                id=limit.id,
                status=status,
                message=message,
                value=value,
                limit=bound,
                on_exceed=limit.on_exceed,
            )
        )
    return tuple(bounds)


def impact(kind: KindDocument, names: language.Names) -> states.Impact:
    """The impact category; HIGH_IMPACT when the expression gives none that is known."""
    try:
        return states.Impact(language.text(kind.impact, names))
    except (ExpressionError, ValueError):
        return states.Impact.HIGH_IMPACT


def required_facts(kind: KindDocument, params: Any) -> tuple[str, ...]:
    """The paths to load for a proposal: what the kind depends on and what it predicts, sorted.

    A path that cannot be made of these parameters is left out; `judge_freshness` reports it. Parameters that
    do not fit their schema make none: nothing bounds what an expression over them costs, and the gate refuses
    them without any fact.
    """
    if not kind_checkers.of_params(kind).fits(params):
        return ()
    found, names = set(), language.Names({"params": params})
    paths = (*(item.fact for item in kind.depends_on), *(item.fact for item in kind.predicts))
    for template in paths:
        try:
            found.add(templates.fact_path(template, names))
        except ExpressionError:
            continue
    return tuple(sorted(found))


def evidence_key(need: EvidenceNeed, params: Any) -> str | None:
    """The name under which required evidence is looked up, such as `fact:price.ABC` or `step:self_check`.

    None where these parameters make no path of a fact.
    """
    if need.fact is None:
        return f"{need.sort}:{need.name}"
    try:
        return f"{need.sort}:{templates.fact_path(need.fact, language.Names({'params': params}))}"
    except ExpressionError:
        return None


def static_prefixes(kind: KindDocument) -> tuple[str, ...]:
    """Exact paths and namespaces (`price.`) of the facts that the kind depends on, sorted.

    Use `templates.selects(selector, path)` to match. This is what an agent without `subscribes` sees.
    """
    found = set()
    for dependency in kind.depends_on:
        try:
            found.add(templates.static_selector(dependency.fact))
        except ExpressionError:
            continue
    return tuple(sorted(found))


def judge_freshness(
    kind: KindDocument,
    *,
    params: Any,
    constraints: Any,
    seen: Mapping[str, Any],
    current: Mapping[str, Any],
) -> tuple[Freshness, ...]:
    """Every dependency of the kind: has the fact moved materially since it was seen?

    `seen` and `current` map fact paths to values. Anything not in `FRESH` is stale.
    """
    names = language.Names({"params": params, "constraints": constraints})
    return tuple(_freshness(dependency, names, seen, current) for dependency in kind.depends_on)


def judge_predicted(
    kind: KindDocument,
    *,
    params: Any,
    constraints: Any,
    seen: Mapping[str, Any],
    current: Mapping[str, Any],
) -> tuple[Freshness, ...]:
    """Every predicted fact of the kind: has it moved materially since the prediction was shown?

    A fact that the kind also depends on is left to `judge_freshness`, unless the prediction has an `unless`
    of its own. A fact that is not there yet is the same while it stays away.
    """
    names = language.Names({"params": params, "constraints": constraints})
    relied = {
        item.fact
        for item in judge_freshness(kind, params=params, constraints=constraints, seen={}, current={})
    }
    found = []
    for prediction in kind.predicts:
        judged = _freshness(Dependency(fact=prediction.fact, unless=prediction.unless), names, seen, current)
        if judged.move is Move.UNREADABLE or (prediction.unless is None and judged.fact in relied):
            continue
        is_nowhere = judged.fact not in seen and judged.fact not in current
        found.append(Freshness(fact=judged.fact, move=Move.SAME) if is_nowhere else judged)
    return tuple(found)


def list_moved(
    kind: KindDocument,
    *,
    params: Any,
    constraints: Any,
    seen: Mapping[str, Any],
    current: Mapping[str, Any],
) -> tuple[str, ...]:
    """The facts that moved materially under what a person is shown: depended on, or expected to change.

    None where the kind is not evaluated, or not over these parameters: the next judgement reports it.
    """
    if safety.why_not_asked(kind, params=params, constraints=constraints):
        return ()
    shown = {"params": params, "constraints": constraints, "seen": seen, "current": current}
    judged = (*judge_freshness(kind, **shown), *judge_predicted(kind, **shown))
    return tuple(dict.fromkeys(item.fact for item in judged if item.move not in FRESH))


def predictions(kind: KindDocument, names: language.Names) -> tuple[Predicted, ...]:
    """The expected effects, in the kind's order; what cannot be predicted is left out."""
    found = []
    for prediction in kind.predicts:
        try:
            path = templates.fact_path(prediction.fact, names)
            value = language.compile_expression(prediction.value).evaluate(names)
        except ExpressionError:
            continue
        found.append(Predicted(fact=path, value=canonical.normalise(value)))
    return tuple(found)


def nest(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Facts by path as `context.facts` has them: by namespace, then by name."""
    nested: dict[str, dict[str, Any]] = {}
    for path, value in facts.items():
        namespace, _, name = path.partition(".")
        nested.setdefault(namespace, {})[name] = value
    return nested


def _condition(rule: Rule | Constraint, names: language.Names, on_fail: OnFail) -> Condition:
    try:
        status = EvaluationStatus.PASSED if language.require(rule.require, names) else EvaluationStatus.FAILED
    except ExpressionError as error:
        return Condition(
            rule.id, EvaluationStatus.ERROR, f"{rule.id} could not be evaluated: {error.message}", on_fail
        )
    words = "" if status is EvaluationStatus.PASSED else rule.message or f"{rule.id} does not hold"
    return Condition(rule.id, status, words, on_fail)


def amount(source: str, names: language.Names) -> tuple[int | float | str | None, str]:
    """The value of a limit's expression and why there is none. Decimal strings stay as they are."""
    try:
        value = language.compile_expression(source).evaluate(names)
        if not language.is_amount(value):
            raise ExpressionError(ErrorCode.NOT_NUMBER)
    except ExpressionError as error:
        return None, error.message
    number: int | float | str = canonical.normalise(value)
    return number, ""


def _freshness(
    dependency: Dependency, names: language.Names, seen: Mapping[str, Any], current: Mapping[str, Any]
) -> Freshness:
    try:
        path = templates.fact_path(dependency.fact, names)
    except ExpressionError:
        return Freshness(fact=dependency.fact, move=Move.UNREADABLE)
    if path not in seen or path not in current:
        return Freshness(fact=path, move=Move.MISSING, seen=seen.get(path), current=current.get(path))
    was, now = seen[path], current[path]
    move = Move.MOVED
    # Bytes, not ==: Python holds True equal to 1.
    if canonical.encode(was) == canonical.encode(now):
        move = Move.SAME
    elif dependency.unless is not None:
        names.put("seen", was)
        names.put("current", now)
        # Bounds that cannot be worked out hold nothing.
        with suppress(ExpressionError):
            move = Move.WITHIN_BOUNDS if language.require(dependency.unless, names) else Move.MOVED
    return Freshness(fact=path, move=move, seen=was, current=now)
