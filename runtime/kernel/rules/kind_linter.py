"""A whole policy kind, checked before it is stored: its schemas, templates and every expression."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from runtime.contracts import reasons
from runtime.contracts.kind_steps import ExecutorKind
from runtime.contracts.kind_types import JsonSchema
from runtime.contracts.policy_kind import InvariantPlace, KindDocument, OnUnknown, RouteAction
from runtime.contracts.states import Impact
from runtime.kernel import effects, schemas
from runtime.kernel.rules import (
    cel_tokens,
    invariants,
    kind_units,
    linter,
    list_bounds,
    redaction_linter,
    sources,
    templates,
)
from runtime.kernel.rules.declared import BUILT_IN
from runtime.kernel.rules.language import ExpressionError
from runtime.kernel.rules.sources import Place, Standing

# Each step of an intent has its receipt, and all of them are one outcome.
MAX_STEPS = 10
# So many have something between them.
MANY = 2
# Nanoseconds that all expressions of a kind may take together at worst; above the second, a stored kind
# no longer judges anything.
MAX_WORK = 250_000_000
STOPPING_WORK = 1_000_000_000
# The lint result of one source of the kind, which may use these names; each is read once.
_Lint = Callable[[str, frozenset[str]], linter.Linted]
_OWN_CODES = frozenset(reason.value for reason in reasons.Reason)


class Gravity(StrEnum):
    """What a problem means for a version that is already active; a new version is refused for either."""

    # It can block all other work.
    UNSAFE = "UNSAFE"
    # It does less than it seems to: people are warned, and it stays active.
    UNSOUND = "UNSOUND"


@dataclass(frozen=True, slots=True)
class KindProblem:
    """One thing that is wrong: where in the kind, and a plain sentence."""

    place: Place
    message: str
    gravity: Gravity = Gravity.UNSOUND


def lint_kind(kind: KindDocument) -> tuple[KindProblem, ...]:
    """Everything that is wrong with a kind, in the order of its fields; empty when it may be stored."""
    broken = tuple(_schema_problems(kind))
    if any(problem.place[0] in ("params_schema", "constraints_schema") for problem in broken):
        # Every expression that reads a field would be reported too, which helps nobody.
        return broken
    lint: _Lint = cache(partial(_lint, kind))
    advised = ("params_schema", "constraints_schema")
    return (
        *broken,
        *(KindProblem((name,), said) for name in advised for said in schemas.advise(getattr(kind, name))),
        *(
            problem
            for standing in sources.list_expressions(kind)
            for problem in _in_expression(lint, standing, standing.text)
        ),
        *_template_problems(kind, lint),
        *_work_problems(kind, lint),
        *_unread_constraints(kind),
        *_id_problems(kind),
        *_figure_problems(kind),
        # The units of a schema that cannot be read are not looked for.
        *(KindProblem(place, said) for place, said in (() if broken else kind_units.lint(kind))),
        *_walk_problems(kind),
        *_route_problems(kind),
        *_impact_problems(kind),
        *_scoring_problems(kind),
        *_outcome_problems(kind),
        *(KindProblem(place, said) for place, said in redaction_linter.lint(kind)),
        *(KindProblem(place, said) for place, said in invariants.lint(kind)),
    )


def fact_namespaces(kind: KindDocument) -> frozenset[str]:
    """The namespaces of the facts that a kind depends on or predicts: what its rules may read."""
    paths = (*(item.fact for item in kind.depends_on), *(item.fact for item in kind.predicts))
    return frozenset(path.partition(".")[0] for path in paths)


def limits_read(kind: KindDocument) -> frozenset[str]:
    """The fields of `manifest.limits` that the kind reads without asking `has` first."""
    read, asked = set[str](), set[str]()
    for source in sources.list_evaluated(kind):
        found = cel_tokens.tokenize(source)
        texts = [token.text for token in found]
        for at in range(len(texts) - 4):
            if texts[at : at + 4] == ["manifest", ".", "limits", "."]:
                is_asked = texts[max(at - 2, 0) : at] == ["has", "("]
                (asked if is_asked else read).add(texts[at + 4])
    return frozenset(read - asked)


def _schema_problems(kind: KindDocument) -> Iterator[KindProblem]:
    named: list[tuple[Place, JsonSchema | None]] = [
        (("params_schema",), kind.params_schema),
        (("constraints_schema",), kind.constraints_schema),
        (("outputs_schema",), kind.outputs_schema),
        *((("steps", at, "receipt_schema"), step.receipt_schema) for at, step in enumerate(kind.steps)),
    ]
    for place, schema in named:
        if schema is None:
            continue
        for sentence in schemas.check_schema(schema):
            # Its behaviour is unknown.
            yield KindProblem(place, sentence, Gravity.UNSAFE)
        if schema.get("type") != "object":
            yield KindProblem(place, "the schema must have type object")


def _in_expression(lint: _Lint, standing: Standing, source: str) -> Iterator[KindProblem]:
    linted = lint(source, standing.names)
    for sentence in linted.found:
        gravity = Gravity.UNSAFE if sentence in linted.stops else Gravity.UNSOUND
        yield KindProblem(standing.place, sentence, gravity)


def _work_problems(kind: KindDocument, lint: _Lint) -> Iterator[KindProblem]:
    """What all expressions cost together; one that is too expensive alone has been reported already."""
    works = [
        (lint(source, standing.names).work, standing.place)
        for standing, source in sources.list_every_source(kind)
    ]
    fair = [(work, place) for work, place in works if work <= linter.MAX_WORK]
    total = sum(work for work, _ in fair)
    if total > MAX_WORK:
        said = (
            f"the expressions of the kind together may take {total / 1e6:,.0f} ms, and "
            f"{MAX_WORK / 1e6:,.0f} ms is the most: this one costs most, make it cheaper"
        )
        gravity = Gravity.UNSAFE if total > STOPPING_WORK else Gravity.UNSOUND
        yield KindProblem(max(fair, key=lambda item: item[0])[1], said, gravity)


def _template_problems(kind: KindDocument, lint: _Lint) -> Iterator[KindProblem]:
    for standing in sources.list_fact_templates(kind):
        problems = tuple(_in_template(lint, standing))
        yield from problems
        if problems:
            continue
        try:
            templates.static_selector(standing.text)
        except ExpressionError:
            said = (
                "a fact has two segments, namespace.name; only the second may contain ${...}, and "
                "further dots are not allowed"
            )
            yield KindProblem(standing.place, said)
    for standing in sources.list_subjects(kind):
        yield from _in_template(lint, standing)
    for standing in sources.list_path_templates(kind):
        problems = tuple(_in_template(lint, standing))
        yield from problems
        if problems:
            continue
        sample = "".join("x" if part.is_expression else part.text for part in templates.parse(standing.text))
        try:
            templates.request_path(sample, {})
        except ExpressionError:
            said = "a path starts with /, has no empty or dotted segment and no spaces; use ${...} for values"
            yield KindProblem(standing.place, said)
    for sentence in effects.lint(kind.effect, list_bounds.property_names(kind.params_schema)):
        yield KindProblem(("effect",), sentence)


def _unread_constraints(kind: KindDocument) -> Iterator[KindProblem]:
    """Bounds that the kind declares and that none of its expressions reads: nothing would enforce them."""
    read = set[str | None]()
    for source in sources.list_evaluated(kind):
        words = cel_tokens.tokenize(source)
        for at, word in enumerate(words):
            if word.text == "constraints" and (at == 0 or words[at - 1].text != "."):
                step = list_bounds.step_after(words, at + 1)
                read.add(None if step is None else step.name)
    # An expression that takes them whole, as a request's body may, takes each of them: it read None.
    unread = () if None in read else list_bounds.property_names(kind.constraints_schema) - BUILT_IN - read
    for name in sorted(unread):
        said = (
            f"no expression reads constraints.{name}: agents could set this constraint and "
            "nothing would enforce it"
        )
        yield KindProblem(("constraints_schema", "properties", name), said)


def _in_template(lint: _Lint, standing: Standing) -> Iterator[KindProblem]:
    try:
        found = templates.expressions(standing.text)
    except ExpressionError:
        yield KindProblem(standing.place, "a ${ is empty or not closed")
        return
    for source in found:
        yield from _in_expression(lint, standing, source)


def _lint(kind: KindDocument, source: str, known: frozenset[str]) -> linter.Linted:
    return linter.lint(
        source,
        names=known,
        params_schema=kind.params_schema,
        constraints_schema=kind.constraints_schema,
        namespaces=fact_namespaces(kind),
        figures=frozenset(figure.param for figure in kind.figures),
    )


def _id_problems(kind: KindDocument) -> Iterator[KindProblem]:
    groups = {
        "limits": [limit.id for limit in kind.limits],
        "rules": [rule.id for rule in kind.rules],
        "constraints": [constraint.id for constraint in kind.constraints],
        "red_lines": [line.id for line in kind.forbidden],
        "steps": [step.id for step in kind.steps],
        "redact": [rule.id for rule in kind.redact],
    }
    for group, ids in groups.items():
        counts = Counter(ids)
        for at, one in enumerate(ids):
            if counts[one] > 1:
                yield KindProblem((group, at, "id"), f"the id {one} is used twice")
            if group == "rules" and one in _OWN_CODES:
                yield KindProblem((group, at, "id"), f"{one} is a reserved reason code of the runtime")


def _figure_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """A figure is one of the kind's parameters, once, and a number: the greater of two is asked about."""
    schema, met = kind.params_schema, set[str]()
    known = list_bounds.property_names(schema)
    for at, figure in enumerate(kind.figures):
        # What the schema says of the field, anywhere: a list of types is more than a number.
        declared = list_bounds.members(schema, figure.param, schema)
        types = [part.get("type") for one in declared for part in list_bounds.parts(one, schema)]
        if figure.param not in known:
            yield KindProblem(("figures", at, "param"), f"{figure.param} is not a parameter of the kind")
        elif figure.param in met:
            yield KindProblem(("figures", at, "param"), f"the figure {figure.param} is given twice")
        elif "integer" not in types and "number" not in types:
            said = f"the schema must give {figure.param} the type integer or number, for it to be a figure"
            yield KindProblem(("figures", at, "param"), said)
        met.add(figure.param)


def _walk_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """What a walk through several steps needs, forward, backwards and in doubt (DIR paper, 7.3)."""
    if len(kind.steps) > MAX_STEPS:
        yield KindProblem(("steps",), f"a kind has at most {MAX_STEPS} steps")
    in_order = [at for at, step in enumerate(kind.steps) if step.id not in kind.fallbacks]
    for at, step in enumerate(kind.steps):
        human = step.human
        if human is not None:
            names = list_bounds.property_names(kind.params_schema)
            texts = (("instructions", human.instructions), ("undo", human.undo or ""))
            for field, text in texts:
                for said in effects.lint(text, names):
                    yield KindProblem(("steps", at, "human", field), said.replace("the effect", "the text"))
        elif not step.is_undone and at < max(in_order, default=0):
            undoing = "a compensate" if step.tool is None else "a tool that is its undo"
            said = f"a step before the last one needs {undoing}: a later one may fail after it"
            yield KindProblem(("steps", at), said)
        if step.tool is not None and kind.on_unknown is not OnUnknown.PERSON:
            said = (
                "a tool of an MCP server knows no key: it is never sent again, so on_unknown must be person"
            )
            yield KindProblem(("on_unknown",), said)
        is_asked = kind.on_unknown is OnUnknown.PROBE and step.executor is ExecutorKind.HTTP
        if is_asked and step.probe is None:
            yield KindProblem(("steps", at), "with on_unknown probe an http step needs a probe")
        if step.probe is not None and not _reads_key(step.probe.path):
            yield KindProblem(
                ("steps", at, "probe", "path"),
                "a probe looks a call up by its key: its path must contain ${key}",
            )
    for at, assertion in enumerate(kind.safety_assertions):
        places = () if assertion.pinned is None else assertion.pinned.at
        if InvariantPlace.BETWEEN_STEPS in places and len(kind.steps) < MANY:
            said = f"{assertion.invariant_id} is asked between steps, and the kind has fewer than two"
            yield KindProblem(("safety_assertions", at), said)
        elif InvariantPlace.AFTER in places and not kind.steps:
            said = f"{assertion.invariant_id} is asked after the steps, and the kind has none"
            yield KindProblem(("safety_assertions", at), said)


def _route_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """What a route names is there: a step to fall back to, or the words of an advice."""
    ids = [step.id for step in kind.steps]
    for at, route in enumerate(kind.routes):
        is_fall_back = route.action is RouteAction.FALL_BACK
        if is_fall_back and route.step is None:
            yield KindProblem(("routes", at), "FALL_BACK must name the step that runs instead")
        elif not is_fall_back and route.step is not None:
            yield KindProblem(("routes", at, "step"), "only FALL_BACK can name a step")
        elif route.step is not None and route.step not in ids:
            yield KindProblem(("routes", at, "step"), f"the kind has no step {route.step}")
        if route.clarify and route.action is not RouteAction.RE_ENGAGE:
            yield KindProblem(("routes", at, "clarify"), "only RE_ENGAGE can ask for clarification")
        if route.action is RouteAction.RE_ENGAGE and route.advice is None:
            yield KindProblem(("routes", at), "RE_ENGAGE must give the agent an advice")
    if ids and ids[0] in kind.fallbacks:
        yield KindProblem(
            ("steps", 0), "the first step always runs; a fallback step must come after another step"
        )


def _impact_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """A cooling time that could never run: only a CRITICAL decision waits."""
    if kind.cooling_s is not None and Impact.CRITICAL not in kind.impact:
        said = f"only a decision of impact {Impact.CRITICAL} cools down, and impact never gives it"
        yield KindProblem(("cooling_s",), said)


def _scoring_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """A part of a scorecard that could have no consequence."""
    scoring = kind.scorecard
    if scoring is None:
        return
    targets, minimum = scoring.targets, scoring.minimum
    if not targets.model_dump(exclude_none=True) and not minimum.model_dump(exclude_none=True):
        yield KindProblem(("scorecard",), "a scorecard declares at least one target or minimum")
    if minimum.latency is not None and targets.wall_clock_s is None:
        said = "latency is only scored against a target: declare targets.wall_clock_s"
        yield KindProblem(("scorecard", "minimum", "latency"), said)
    if minimum.cost is not None and targets.cost_usd is None and targets.tokens is None:
        said = "cost is only scored against a target: declare targets.cost_usd or targets.tokens"
        yield KindProblem(("scorecard", "minimum", "cost"), said)


def _outcome_problems(kind: KindDocument) -> Iterator[KindProblem]:
    """What an outcome of the kind's own needs: receipts to ask, and what they may come to."""
    asked = [("outcome",)] if kind.outcome is not None else []
    asked += [("outputs",)] if kind.outputs else []
    if asked and not kind.steps:
        yield KindProblem(asked[0], "without steps there is no receipt to ask")
    if kind.outcome is not None and not kind.allowed_outcomes:
        yield KindProblem(("outcome",), "allowed_outcomes must list the outcomes that it may name")
    if kind.outputs and kind.outputs_schema is None:
        yield KindProblem(("outputs",), "outputs need an outputs_schema that they must fit")


def _reads_key(template: str) -> bool:
    """Whether a path holds the key of the call; one that cannot be read is reported elsewhere."""
    try:
        sources = templates.expressions(template)
    except ExpressionError:
        return True
    return any(source == "key" for source in sources)
