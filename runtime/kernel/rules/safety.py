"""Whether a stored kind may be evaluated at all.

A kind is immutable, and the linter learns. What an older linter accepted may block all other work:
such a kind judges nothing until another version is active. What was judged under it is judged again as it
was, from its stored bytes: the gate receives the answer, it does not ask here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import (
    cel_tokens,
    condition_linter,
    cost,
    kind_checkers,
    kind_linter,
    scope,
    shapes,
    sources,
    tree,
)
from runtime.kernel.rules.kind_checkers import once_per_kind

# Far larger than anything that is compared with it, so that what grows with the facts shows whole.
_LARGE = 10**12
NOT_ASKED = "it is not evaluated, since it could keep everything else waiting"
MISFIT = "parameters or constraints do not fit the schemas of the policy kind, or are too large to be checked"


@once_per_kind
def why_unsafe(kind: KindDocument) -> str:
    """Why `kind` may not be evaluated; empty when it may."""
    for problem in kind_linter.lint_kind(kind):
        if problem.gravity is kind_linter.Gravity.UNSAFE:
            return f"{'.'.join(map(str, problem.place))}: {problem.message}"
    return ""


def fits(kind: KindDocument, *, params: Any, constraints: Any) -> bool:
    """Whether the values fit the schemas of `kind`, which may be evaluated.

    What its expressions cost is worked out from these schemas: for any other value it has no bound.
    """
    return kind_checkers.of_params(kind).fits(params) and kind_checkers.of_constraints(kind).fits(constraints)


def why_not_asked(kind: KindDocument, *, params: Any, constraints: Any) -> str:
    """Why the expressions of `kind` may not be evaluated over these values; empty when they may."""
    unsafe = why_unsafe(kind)
    if unsafe:
        return unsafe
    return "" if fits(kind, params=params, constraints=constraints) else MISFIT


def why_too_slow(kind: KindDocument, *, world: Mapping[str, Any], conditions: tuple[str, ...] = ()) -> str:
    """Why these facts are too many for what `kind` and the conditions read of them; empty when they are not.

    A stored kind is asked up to a second, and the linter knew no more than that facts are few.
    """
    reads = reads_of_kind(kind) + (reads_of(conditions, kind) if conditions else 0)
    # Nanoseconds at worst of so many copies of these facts.
    work = reads * shapes.copy_of(world) if reads else 0
    if work <= kind_linter.STOPPING_WORK:
        return ""
    return (
        f"its expressions read facts {reads} times, which may take {work / 1e6:,.0f} ms with the "
        f"{len(world)} that are loaded: write facts by their full names, and outside macros"
    )


@once_per_kind
def reads_of_kind(kind: KindDocument) -> int:
    """How often the expressions of a kind copy all the facts of a case, at worst and together.

    The linter takes the facts of a case to be few. This is unknown before they are loaded, so the gate learns
    afterwards whether they are too many for what reads them.
    """
    return reads_of(sources.list_evaluated(kind), kind)


def reads_of(texts: Iterable[str], kind: KindDocument) -> int:
    """The same of expressions over the names of a kind, such as the conditions of a decision.

    Of each text once more than it is at worst, so never too few; none where no tree can be made of it.
    """
    sizes = scope.sizes(params_schema=kind.params_schema, constraints_schema=kind.constraints_schema)
    without, with_many = ({**sizes, "context": replace(sizes["context"], copy=copy)} for copy in (0, _LARGE))
    reads = 0
    for text in texts:
        try:
            node = tree.parse(cel_tokens.tokenize(text))
        except tree.UnreadableError:
            continue
        least, most = cost.of(node, without)[0], cost.of(node, with_many)[0]
        reads += -(-(most - least) // _LARGE)
    return reads


def are_conditions_safe(conditions: tuple[str, ...], kind: KindDocument) -> bool:
    """Whether conditions that were stored with a decision may be asked."""
    return not conditions or condition_linter.are_safe(conditions, kind.to_bytes())
