"""What is wrong with a workflow before anybody walks it (ArbiterOS leaves this open). Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from audit import canonical
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.workflow import (
    INTERRUPT,
    PrecedesChecker,
    Router,
    SequenceChecker,
    StateChecker,
    ThresholdRouter,
    ValidateRouter,
    ValueRouter,
    WorkflowDocument,
)
from runtime.kernel import step_history
from runtime.kernel.rules import language

_STATE_NAMES = frozenset({"input", "history"})
_STEP_NAMES = frozenset({"input", "output"})


class LintCode(StrEnum):
    """What the linter finds; the codes are permanent."""

    UNREACHABLE = "UNREACHABLE"
    NO_END = "NO_END"
    FORBIDDEN_PATH = "FORBIDDEN_PATH"
    UNBOUNDED_CYCLE = "UNBOUNDED_CYCLE"
    UNKNOWN_INSTRUCTION = "UNKNOWN_INSTRUCTION"
    AMBIGUOUS_ROUTERS = "AMBIGUOUS_ROUTERS"
    POLICY_DEADLOCK = "POLICY_DEADLOCK"
    RESERVED_NAME = "RESERVED_NAME"
    INVALID_EXPRESSION = "INVALID_EXPRESSION"
    INVALID_SCHEMA = "INVALID_SCHEMA"


_WARNINGS = frozenset({LintCode.AMBIGUOUS_ROUTERS, LintCode.POLICY_DEADLOCK})


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong; `place` is the path in the workflow's document."""

    code: LintCode
    place: tuple[str | int, ...]
    message: str

    @property
    def severity(self) -> LintSeverity:
        """Whether it keeps the workflow from being loaded."""
        return LintSeverity.WARNING if self.code in _WARNINGS else LintSeverity.ERROR


def lint(workflow: WorkflowDocument) -> tuple[LintFinding, ...]:
    """Everything that is wrong; what the graph lacks is not asked while it names what is not there."""
    unknown = (*_unknown(workflow), *_expressions(workflow), *_schemas(workflow))
    if any(finding.code is LintCode.UNKNOWN_INSTRUCTION for finding in unknown):
        return unknown
    return (
        *unknown,
        *_unreachable(workflow),
        *_without_end(workflow),
        *_forbidden(workflow),
        *_unbounded(workflow),
        *_ambiguous(workflow),
    )


def successors(workflow: WorkflowDocument) -> dict[str, set[str]]:
    """What can follow each instruction: by an edge, or since a router demands it."""
    follow: dict[str, set[str]] = {name: set() for name in workflow.instructions}
    for before, after in workflow.edges:
        follow[before].add(after)
    for router in workflow.routers:
        for target in _targets(router):
            follow[router.on].add(target)
        if isinstance(router, ValidateRouter) and router.by is not None:
            follow[router.by].update(_targets(router))
    return follow


def _targets(router: Router) -> tuple[str, ...]:
    """The instructions that a router can demand; to call a person demands none."""
    named = (router.by, router.failed) if isinstance(router, ValidateRouter) else (router.to, None)
    return tuple(name for name in named if name is not None and name != INTERRUPT)


def _unknown(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    named: list[tuple[tuple[str | int, ...], str]] = [(("start",), workflow.start)]
    named += [(("ends", at), name) for at, name in enumerate(workflow.ends)]
    named += [
        (("edges", at, side), name)
        for at, edge in enumerate(workflow.edges)
        for side, name in enumerate(edge)
    ]
    for at, checker in enumerate(workflow.checkers):
        if not isinstance(checker, SequenceChecker):
            named.append((("checkers", at, "on"), checker.on))
        if isinstance(checker, PrecedesChecker):
            named.append((("checkers", at, "by"), checker.by))
    for at, router in enumerate(workflow.routers):
        named.append((("routers", at, "on"), router.on))
        if isinstance(router, ValidateRouter):
            named += [(("routers", at, "by"), router.by)] if router.by else []
            named += [(("routers", at, "on_fail"), router.on_fail)] if router.on_fail else []
        else:
            named.append((("routers", at, "to"), router.to))
    for place, name in named:
        if name in workflow.instructions or (name == INTERRUPT and place[-1] in {"to", "on_fail"}):
            continue
        said = f"{name} is not declared in instructions"
        if name == INTERRUPT:
            said = "INTERRUPT calls a person; only `to` and `on_fail` of a router can lead there"
        yield LintFinding(LintCode.UNKNOWN_INSTRUCTION, place, said)
    if INTERRUPT in workflow.instructions:
        said = "INTERRUPT is where routers call a person; give the instruction another name"
        yield LintFinding(LintCode.RESERVED_NAME, ("instructions", INTERRUPT), said)


def _expressions(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    written = [
        (("checkers", at, "require"), checker.require, _STATE_NAMES, "input or history.last")
        for at, checker in enumerate(workflow.checkers)
        if isinstance(checker, StateChecker)
    ]
    written += [
        (("routers", at, "require"), router.require, _STEP_NAMES, "input or output")
        for at, router in enumerate(workflow.routers)
        if isinstance(router, ValidateRouter) and router.require is not None
    ]
    for place, text, names, offered in written:
        try:
            expression = language.compile_expression(text)
        except language.ExpressionError as error:
            yield LintFinding(LintCode.INVALID_EXPRESSION, place, error.message)
            continue
        for name in sorted(expression.names - expression.bound_names - names):
            said = f"{name} is not known here; use {offered}"
            yield LintFinding(LintCode.INVALID_EXPRESSION, place, said)
        if expression.bound_names:
            # Nested macros over an agent's own input would have no bound on their time.
            said = "macros such as exists and map are not allowed here"
            yield LintFinding(LintCode.INVALID_EXPRESSION, place, said)


def _schemas(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    for name, known in workflow.instructions.items():
        for part, schema in (("input_schema", known.input_schema), ("output_schema", known.output_schema)):
            for said in () if schema is None else step_history.lint_schema(schema):
                yield LintFinding(LintCode.INVALID_SCHEMA, ("instructions", name, part), said)


def _reached(follow: dict[str, set[str]], begin: Iterable[str]) -> set[str]:
    found = set(begin)
    waiting = deque(found)
    while waiting:
        fresh = follow[waiting.popleft()] - found
        found |= fresh
        waiting.extend(fresh)
    return found


def _unreachable(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    reached = _reached(successors(workflow), [workflow.start])
    for name in workflow.instructions:
        if name not in reached:
            said = f"neither an edge nor a router leads from {workflow.start} to {name}"
            yield LintFinding(LintCode.UNREACHABLE, ("instructions", name), said)


def _without_end(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    follow = successors(workflow)
    back: dict[str, set[str]] = {name: set() for name in follow}
    for before, after in follow.items():
        for name in after:
            back[name].add(before)
    ending = _reached(back, workflow.ends)
    for name in workflow.instructions:
        if name in _reached(follow, [workflow.start]) and name not in ending:
            said = f"no path leads from {name} to an end"
            yield LintFinding(LintCode.NO_END, ("instructions", name), said)


def _forbidden(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    """Paths that a sequence checker refuses; walked once for each, with what it remembers."""
    follow, routed = successors(workflow), _routed(workflow)
    edges = set(workflow.edges)
    for at, checker in enumerate(workflow.checkers):
        if not isinstance(checker, SequenceChecker):
            continue

        def remembers(name: str, was: bool, checker: SequenceChecker = checker) -> bool:
            core = workflow.instructions[name].core
            return core is checker.before or (was and core is not checker.between)

        first = (workflow.start, remembers(workflow.start, False))
        paths: dict[tuple[str, bool], tuple[str, ...]] = {first: (workflow.start,)}
        waiting = deque([first])
        while waiting:
            name, is_open = waiting.popleft()
            for after in sorted(follow[name]):
                path = (*paths[name, is_open], after)
                if is_open and workflow.instructions[after].core is checker.to:
                    said = f"{checker.id} refuses {after} on the path {' > '.join(path)}"
                    if (name, after) in edges:
                        yield LintFinding(LintCode.FORBIDDEN_PATH, ("checkers", at), said)
                    if (name, after) in routed:
                        yield LintFinding(LintCode.POLICY_DEADLOCK, ("routers", routed[name, after]), said)
                    continue
                state = (after, remembers(after, is_open))
                if state not in paths:
                    paths[state] = path
                    waiting.append(state)


def _routed(workflow: WorkflowDocument) -> dict[tuple[str, str], int]:
    """The routers that demand one instruction after another, by the pair; the first of several."""
    found: dict[tuple[str, str], int] = {}
    for at, router in enumerate(workflow.routers):
        for target in _targets(router):
            found.setdefault((router.on, target), at)
            if isinstance(router, ValidateRouter) and router.by is not None:
                found.setdefault((router.by, target), at)
    return found


def _unbounded(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    follow = successors(workflow)
    free = {
        name for name in _reached(follow, [workflow.start]) if workflow.instructions[name].max_visits is None
    }
    try:
        TopologicalSorter({name: sorted(follow[name] & free) for name in sorted(free)}).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        said = f"nothing bounds the cycle {' > '.join(cycle)}; give one of them max_visits"
        yield LintFinding(LintCode.UNBOUNDED_CYCLE, ("instructions", cycle[0]), said)


def _ambiguous(workflow: WorkflowDocument) -> Iterator[LintFinding]:
    for (_, one), (at, other) in combinations(enumerate(workflow.routers), 2):
        if one.on == other.on and not _exclude(one, other):
            said = f"{one.id} and {other.id} can both match after {one.on}; {one.id}, the first, wins"
            yield LintFinding(LintCode.AMBIGUOUS_ROUTERS, ("routers", at), said)


def _exclude(one: Router, other: Router) -> bool:
    """Whether no value of one key matches both; a key that was not reported is another matter."""
    if isinstance(one, ValidateRouter) or isinstance(other, ValidateRouter) or one.key != other.key:
        return False
    match one, other:
        case ValueRouter(equals=left), ValueRouter(equals=right):
            return canonical.encode(left) != canonical.encode(right)
        case ThresholdRouter(below=float(below)), ThresholdRouter(above=float(above)):
            return below <= above
        case ThresholdRouter(above=float(above)), ThresholdRouter(below=float(below)):
            return below <= above
        case (ThresholdRouter() as bound, ValueRouter(equals=value)) | (
            ValueRouter(equals=value),
            ThresholdRouter() as bound,
        ):
            if isinstance(value, bool) or not isinstance(value, int | float):
                return True
            if bound.below is not None:
                return value >= bound.below
            return bound.above is not None and value <= bound.above
        case _:
            return False
