"""Whether a stored kind may be evaluated at all.

A kind is immutable, and the linter learns. What an older linter let pass may keep everything else waiting:
such a kind judges nothing until another version is in force. What was judged under it is judged again as it
was, from its stored bytes: the gate is told, it does not ask here.
"""

from functools import lru_cache

from runtime.contracts.policy_kind import PolicyKind
from runtime.kernel.rules import condition_linter, kind_linter

NOT_ASKED = "it is not evaluated, since it could keep everything else waiting"


class _Same:
    """A kind as the object that it is: the kinds in force are read once and kept."""

    __slots__ = ("kind",)

    def __init__(self, kind: PolicyKind) -> None:
        self.kind = kind

    def __hash__(self) -> int:
        return id(self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.kind is self.kind


def why_unsafe(kind: PolicyKind) -> str:
    """Why `kind` may not be evaluated; empty when it may. Costs nothing after the first time."""
    return _of_object(_Same(kind))


def are_conditions_safe(conditions: tuple[str, ...], kind: PolicyKind) -> bool:
    """Whether conditions that were stored with a decision may be asked."""
    return not conditions or condition_linter.are_safe(conditions, kind.to_bytes())


@lru_cache(maxsize=256)
def _of_object(same: _Same) -> str:
    return _of_body(same.kind.to_bytes())


@lru_cache(maxsize=1024)
def _of_body(body: bytes) -> str:
    for problem in kind_linter.lint_kind(PolicyKind.from_bytes(body)):
        if problem.gravity is kind_linter.Gravity.UNSAFE:
            return f"{'.'.join(map(str, problem.place))}: {problem.message}"
    return ""
