"""Whether a stored kind may be evaluated at all.

A kind is immutable, and the linter learns. What an older linter accepted may block all other work:
such a kind judges nothing until another version is active. What was judged under it is judged again as it
was, from its stored bytes: the gate receives the answer, it does not ask here.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel import schemas
from runtime.kernel.rules import condition_linter, kind_linter, world_reads

NOT_ASKED = "it is not evaluated, since it could keep everything else waiting"
MISFIT = "parameters or constraints do not fit the schemas of the policy kind, or are too large to be checked"


class _Same:
    """A kind as the object that it is: the active kinds are read once and kept."""

    __slots__ = ("kind",)

    def __init__(self, kind: KindDocument) -> None:
        self.kind = kind

    def __hash__(self) -> int:
        return id(self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.kind is self.kind


def why_unsafe(kind: KindDocument) -> str:
    """Why `kind` may not be evaluated; empty when it may. Costs nothing after the first time."""
    return _of_object(_Same(kind))


def fits(kind: KindDocument, *, params: Any, constraints: Any) -> bool:
    """Whether the values fit the schemas of `kind`, which may be evaluated.

    What its expressions cost is worked out from these schemas: for any other value it has no bound.
    """
    return schemas.fits(kind.params_schema, params) and schemas.fits(kind.constraints_schema, constraints)


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
    reads = world_reads.of_kind(kind.to_bytes()) + world_reads.of_conditions(conditions, kind)
    work = world_reads.work(reads, world)
    if work <= kind_linter.STOPPING_WORK:
        return ""
    return (
        f"its expressions read facts {reads} times, which may take {work / 1e6:,.0f} ms with the "
        f"{len(world)} that are loaded: write facts by their full names, and outside macros"
    )


def are_conditions_safe(conditions: tuple[str, ...], kind: KindDocument) -> bool:
    """Whether conditions that were stored with a decision may be asked."""
    return not conditions or condition_linter.are_safe(conditions, kind.to_bytes())


@lru_cache(maxsize=256)
def _of_object(same: _Same) -> str:
    return _of_body(same.kind.to_bytes())


@lru_cache(maxsize=1024)
def _of_body(body: bytes) -> str:
    for problem in kind_linter.lint_kind(KindDocument.from_bytes(body)):
        if problem.gravity is kind_linter.Gravity.UNSAFE:
            return f"{'.'.join(map(str, problem.place))}: {problem.message}"
    return ""
