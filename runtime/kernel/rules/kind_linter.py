"""A whole policy kind, checked before it is stored: its schemas, templates and every expression."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.contracts import reasons
from runtime.contracts.policy_kind import ExecutorKind, OnUnknown, PolicyKind, RouteAction, Step
from runtime.kernel import effects, schemas
from runtime.kernel.rules import linter, names, ranges, templates, tokens
from runtime.kernel.rules.language import ExpressionError

Place = tuple[str | int, ...]
# Each step of an intent has its receipt, and all of them are one outcome.
MAX_STEPS = 10
_OWN_CODES = frozenset(reason.value for reason in reasons.Reason)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where in the kind, and a plain sentence."""

    place: Place
    message: str


def lint_kind(kind: PolicyKind) -> tuple[Problem, ...]:
    """Everything that is wrong with a kind, in the order of its fields; empty when it may be stored."""
    broken = tuple(_schema_problems(kind))
    if any(problem.place[0] in ("params_schema", "constraints_schema") for problem in broken):
        # Every expression that reads a field would be reported too, to nobody's use.
        return broken
    return (
        *broken,
        *_expression_problems(kind),
        *_template_problems(kind),
        *_id_problems(kind),
        *_walk_problems(kind),
        *_route_problems(kind),
    )


def fact_namespaces(kind: PolicyKind) -> frozenset[str]:
    """The namespaces of the facts that a kind depends on or predicts: what its rules may read."""
    paths = (*(item.fact for item in kind.depends_on), *(item.fact for item in kind.predicts))
    return frozenset(path.partition(".")[0] for path in paths)


def limits_read(kind: PolicyKind) -> frozenset[str]:
    """The fields of `manifest.limits` that the kind reads without asking `has` first."""
    read, asked = set[str](), set[str]()
    for _, source, _ in _expressions(kind):
        found = tokens.tokenize(source)
        texts = [token.text for token in found]
        for at in range(len(texts) - 4):
            if texts[at : at + 4] == ["manifest", ".", "limits", "."]:
                is_asked = texts[max(at - 2, 0) : at] == ["has", "("]
                (asked if is_asked else read).add(texts[at + 4])
    return frozenset(read - asked)


def _schema_problems(kind: PolicyKind) -> Iterator[Problem]:
    for name in ("params_schema", "constraints_schema", "outputs_schema"):
        schema = getattr(kind, name)
        if schema is None:
            continue
        for sentence in schemas.check_schema(schema):
            yield Problem((name,), sentence)
        if schema.get("type") != "object":
            yield Problem((name,), "the schema must have type object")


def _expression_problems(kind: PolicyKind) -> Iterator[Problem]:
    for place, source, known in _expressions(kind):
        for sentence in _lint(kind, source, known):
            yield Problem(place, sentence)


def _expressions(kind: PolicyKind) -> Iterator[tuple[Place, str, frozenset[str]]]:
    """Every expression of a kind: where it stands, its source, and the names it may use."""
    for at, dependency in enumerate(kind.depends_on):
        if dependency.unless is not None:
            yield ("depends_on", at, "unless"), dependency.unless, names.UNLESS
    yield ("impact",), kind.impact, names.JUDGED
    for at, limit in enumerate(kind.limits):
        yield ("limits", at, "value"), limit.value, names.JUDGED
        yield ("limits", at, "limit"), limit.limit, names.JUDGED
    for at, rule in enumerate(kind.rules):
        yield ("rules", at, "require"), rule.require, names.JUDGED
    for at, constraint in enumerate(kind.constraints):
        yield ("constraints", at, "require"), constraint.require, names.JUDGED
    for at, prediction in enumerate(kind.predicts):
        yield ("predicts", at, "value"), prediction.value, names.JUDGED
    for at, claim in enumerate(kind.claims):
        yield ("claims", at, "amount"), claim.amount, names.JUDGED
    for at, step in enumerate(kind.steps):
        yield from _step_expressions(step, ("steps", at))
    for at, route in enumerate(kind.routes):
        yield ("routes", at, "when"), route.when, names.ROUTED


def _step_expressions(step: Step, place: Place) -> Iterator[tuple[Place, str, frozenset[str]]]:
    if step.request is not None and step.request.body is not None:
        yield (*place, "request", "body"), step.request.body, names.REQUEST
    if step.compensate is not None and step.compensate.body is not None:
        yield (*place, "compensate", "body"), step.compensate.body, names.BY_KEY
    for at, write in enumerate(step.writes):
        yield (*place, "writes", at, "value"), write.value, names.RECEIPT


def _template_problems(kind: PolicyKind) -> Iterator[Problem]:
    for at, dependency in enumerate(kind.depends_on):
        yield from _fact_template(kind, ("depends_on", at, "fact"), dependency.fact, names.PARAMS)
    for at, prediction in enumerate(kind.predicts):
        yield from _fact_template(kind, ("predicts", at, "fact"), prediction.fact, names.PARAMS)
    for at, subject in enumerate(kind.subjects):
        yield from _in_template(kind, ("subjects", at), subject, names.JUDGED)
    for at, step in enumerate(kind.steps):
        place: Place = ("steps", at)
        if step.request is not None:
            yield from _request(kind, (*place, "request", "path"), step.request.path, names.REQUEST)
        if step.compensate is not None:
            yield from _request(kind, (*place, "compensate", "path"), step.compensate.path, names.BY_KEY)
        if step.probe is not None:
            yield from _request(kind, (*place, "probe", "path"), step.probe.path, names.BY_KEY)
        for number, write in enumerate(step.writes):
            yield from _fact_template(kind, (*place, "writes", number, "fact"), write.fact, names.RECEIPT)
    for sentence in effects.lint(kind.effect, ranges.property_names(kind.params_schema)):
        yield Problem(("effect",), sentence)


def _fact_template(kind: PolicyKind, place: Place, template: str, known: frozenset[str]) -> Iterator[Problem]:
    problems = tuple(_in_template(kind, place, template, known))
    yield from problems
    if problems:
        return
    try:
        templates.static_selector(template)
    except ExpressionError:
        yield Problem(
            place,
            "a fact has two segments, namespace.name; only the second may hold ${...}, and no more dots",
        )


def _request(kind: PolicyKind, place: Place, path: str, known: frozenset[str]) -> Iterator[Problem]:
    problems = tuple(_in_template(kind, place, path, known))
    yield from problems
    if problems:
        return
    sample = "".join("x" if part.is_expression else part.text for part in templates.parse(path))
    try:
        templates.request_path(sample, {})
    except ExpressionError:
        yield Problem(
            place, "a path starts with /, has no empty or dotted segment and no spaces; use ${...} for values"
        )


def _in_template(kind: PolicyKind, place: Place, template: str, known: frozenset[str]) -> Iterator[Problem]:
    try:
        sources = templates.expressions(template)
    except ExpressionError:
        yield Problem(place, "a ${ is empty or does not end")
        return
    for source in sources:
        for sentence in _lint(kind, source, known):
            yield Problem(place, sentence)


def _lint(kind: PolicyKind, source: str, known: frozenset[str]) -> list[str]:
    return linter.lint_expression(
        source,
        names=known,
        params_schema=kind.params_schema,
        constraints_schema=kind.constraints_schema,
        namespaces=fact_namespaces(kind),
    )


def _id_problems(kind: PolicyKind) -> Iterator[Problem]:
    groups = {
        "limits": [limit.id for limit in kind.limits],
        "rules": [rule.id for rule in kind.rules],
        "constraints": [constraint.id for constraint in kind.constraints],
        "steps": [step.id for step in kind.steps],
    }
    for group, ids in groups.items():
        counts = Counter(ids)
        for at, one in enumerate(ids):
            if counts[one] > 1:
                yield Problem((group, at, "id"), f"the id {one} is used twice")
            if group == "rules" and one in _OWN_CODES:
                yield Problem((group, at, "id"), f"{one} is a reason code of the runtime's own")


def _walk_problems(kind: PolicyKind) -> Iterator[Problem]:
    """What a walk through several steps needs, forward, backwards and in doubt (DIR paper, 7.3)."""
    if len(kind.steps) > MAX_STEPS:
        yield Problem(("steps",), f"a kind has at most {MAX_STEPS} steps")
    in_order = [at for at, step in enumerate(kind.steps) if step.id not in kind.fallbacks]
    for at, step in enumerate(kind.steps):
        if step.compensate is None and at < max(in_order, default=0):
            yield Problem(
                ("steps", at), "a step before the last one needs a compensate: a later one may fail after it"
            )
        is_asked = kind.on_unknown is OnUnknown.PROBE and step.executor is ExecutorKind.HTTP
        if is_asked and step.probe is None:
            yield Problem(("steps", at), "with on_unknown probe an http step needs a probe")
        if step.probe is not None and not _reads_key(step.probe.path):
            yield Problem(
                ("steps", at, "probe", "path"), "a probe asks by the key: its path must hold ${key}"
            )


def _route_problems(kind: PolicyKind) -> Iterator[Problem]:
    """What a route names is there: a step to fall back to, or the words of an advice."""
    ids = [step.id for step in kind.steps]
    for at, route in enumerate(kind.routes):
        is_fall_back = route.action is RouteAction.FALL_BACK
        if is_fall_back and route.step is None:
            yield Problem(("routes", at), "FALL_BACK names the step that runs instead")
        elif not is_fall_back and route.step is not None:
            yield Problem(("routes", at, "step"), "only FALL_BACK names a step")
        elif route.step is not None and route.step not in ids:
            yield Problem(("routes", at, "step"), f"the kind has no step {route.step}")
        if route.action is RouteAction.RE_ENGAGE and route.advice is None:
            yield Problem(("routes", at), "RE_ENGAGE gives the agent an advice")
    if ids and ids[0] in kind.fallbacks:
        yield Problem(("steps", 0), "the first step runs always; a step to fall back to stands after another")


def _reads_key(template: str) -> bool:
    """Whether a path holds the key of the call; one that cannot be read is reported elsewhere."""
    try:
        sources = templates.expressions(template)
    except ExpressionError:
        return True
    return any(source == "key" for source in sources)
