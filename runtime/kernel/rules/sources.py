"""Every place in a policy kind that may hold an expression: the one list.

The linter checks these places, and the facts of a case are loaded by what is read there. A place that
only one of them knew would be checked and never served, so both ask here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.contracts.kind_steps import Step, ToolCall
from runtime.contracts.policy_kind import EvidenceNeed, KindDocument, RedLine
from runtime.kernel.rules import scope, templates
from runtime.kernel.rules.language import ExpressionError

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """A text of the kind: its place, its source, and the names that it may use."""

    place: Place
    text: str
    names: frozenset[str]


def list_expressions(kind: KindDocument) -> Iterator[Standing]:
    """The expressions outside templates, in the order of the kind's fields."""
    for at, dependency in enumerate(kind.depends_on):
        if dependency.unless is not None:
            yield Standing(("depends_on", at, "unless"), dependency.unless, scope.UNLESS)
    yield Standing(("impact",), kind.impact, scope.JUDGED)
    for at, limit in enumerate(kind.limits):
        yield Standing(("limits", at, "value"), limit.value, scope.JUDGED)
        yield Standing(("limits", at, "limit"), limit.limit, scope.JUDGED)
    for at, rule in enumerate(kind.rules):
        yield Standing(("rules", at, "require"), rule.require, scope.JUDGED)
    for at, constraint in enumerate(kind.constraints):
        yield Standing(("constraints", at, "require"), constraint.require, scope.JUDGED)
    yield from _red_lines(kind)
    yield from _invariants(kind)
    for at, prediction in enumerate(kind.predicts):
        yield Standing(("predicts", at, "value"), prediction.value, scope.JUDGED)
        if prediction.unless is not None:
            yield Standing(("predicts", at, "unless"), prediction.unless, scope.UNLESS)
    for at, claim in enumerate(kind.claims):
        yield Standing(("claims", at, "amount"), claim.amount, scope.JUDGED)
    for at, figure in enumerate(kind.figures):
        yield Standing(("figures", at, "value"), figure.value, scope.WORKED_OUT)
    for at, step in enumerate(kind.steps):
        yield from _expressions_of_step(step, ("steps", at))
    for at, route in enumerate(kind.routes):
        yield Standing(("routes", at, "when"), route.when, scope.ROUTED)
    yield from _outcome(kind)
    if kind.good_when is not None:
        yield Standing(("good_when",), kind.good_when, scope.SETTLED)


def list_fact_templates(kind: KindDocument) -> Iterator[Standing]:
    """The paths of facts, which may hold `${CEL}`."""
    for at, dependency in enumerate(kind.depends_on):
        yield Standing(("depends_on", at, "fact"), dependency.fact, scope.PARAMS)
    for at, prediction in enumerate(kind.predicts):
        yield Standing(("predicts", at, "fact"), prediction.fact, scope.PARAMS)
    for at, need in enumerate(kind.required_evidence):
        if isinstance(need, EvidenceNeed) and need.fact is not None:
            yield Standing(("required_evidence", at, "fact"), need.fact, scope.PARAMS)
    for at, step in enumerate(kind.steps):
        for number, write in enumerate(step.writes):
            yield Standing(("steps", at, "writes", number, "fact"), write.fact, scope.RECEIPT)


def list_path_templates(kind: KindDocument) -> Iterator[Standing]:
    """The paths of requests, which may hold `${CEL}`."""
    for at, step in enumerate(kind.steps):
        asked = (
            ("request", step.request, scope.REQUEST),
            ("compensate", step.compensate, scope.BY_KEY),
            ("probe", step.probe, scope.BY_KEY),
        )
        for field, request, known in asked:
            if request is not None:
                yield Standing(("steps", at, field, "path"), request.path, known)


def list_subjects(kind: KindDocument) -> Iterator[Standing]:
    """The names of what the action is about, which may hold `${CEL}`: no verdict depends on them."""
    for at, subject in enumerate(kind.subjects):
        yield Standing(("subjects", at), subject, scope.JUDGED)


def list_evaluated(kind: KindDocument) -> Iterator[str]:
    """The source of every expression that is evaluated, whether by itself or inside a template."""
    yield from (source for _, source in list_every_source(kind))


def list_every_source(kind: KindDocument) -> Iterator[tuple[Standing, str]]:
    """The same with its place."""
    yield from ((standing, standing.text) for standing in list_expressions(kind))
    for standing in (*list_fact_templates(kind), *list_path_templates(kind)):
        try:
            found = templates.expressions(standing.text)
        except ExpressionError:
            continue  # the linter reports it, and the gate reports that the request cannot be rendered
        yield from ((standing, source) for source in found)


def _red_lines(kind: KindDocument) -> Iterator[Standing]:
    for at, line in enumerate(kind.red_lines):
        if isinstance(line, RedLine):
            yield Standing(("red_lines", at, "forbid"), line.forbid, scope.JUDGED)


def _invariants(kind: KindDocument) -> Iterator[Standing]:
    for at, assertion in enumerate(kind.safety_assertions):
        place: Place = ("safety_assertions", at)
        # By itself as well: inside the invariant, a name that a macro binds would hide one that is not known.
        for name, source in assertion.given.items():
            yield Standing((*place, "with", name), source, scope.JUDGED)
        if assertion.pinned is not None:
            yield Standing((*place, "pinned", "require"), assertion.pinned.require, scope.JUDGED)


def _outcome(kind: KindDocument) -> Iterator[Standing]:
    if kind.outcome is not None:
        yield Standing(("outcome",), kind.outcome, scope.ENDED)
    for name, source in kind.outputs.items():
        yield Standing(("outputs", name), source, scope.ENDED)


def _expressions_of_step(step: Step, place: Place) -> Iterator[Standing]:
    if step.request is not None and step.request.body is not None:
        yield Standing((*place, "request", "body"), step.request.body, scope.REQUEST)
    if step.compensate is not None and step.compensate.body is not None:
        yield Standing((*place, "compensate", "body"), step.compensate.body, scope.BY_KEY)
    if step.tool is not None:
        yield from _arguments(step.tool, (*place, "tool"), scope.REQUEST)
        if step.tool.undo is not None:
            yield from _arguments(step.tool.undo, (*place, "tool", "undo"), scope.BY_KEY)
    for name in ("done", "failed"):
        asked = None if step.follow is None else getattr(step.follow, name)
        if asked is not None:
            yield Standing((*place, "follow", name), asked, scope.ANSWERED)
    for name in ("tokens", "cost_usd"):
        read = None if step.meter is None else getattr(step.meter, name)
        if read is not None:
            yield Standing((*place, "meter", name), read, scope.ANSWERED)
    for at, one in enumerate(step.preconditions):
        yield Standing((*place, "preconditions", at, "require"), one.require, scope.BEFORE_STEP)
    for at, write in enumerate(step.writes):
        yield Standing((*place, "writes", at, "value"), write.value, scope.RECEIPT)


def _arguments(call: ToolCall, place: Place, known: frozenset[str]) -> Iterator[Standing]:
    if call.arguments is not None:
        yield Standing((*place, "arguments"), call.arguments, known)
