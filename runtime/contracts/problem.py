"""Refusals of the API as values (RFC 9457); `dir_console.problems` alone turns one into HTTP."""

from dataclasses import dataclass

from runtime.contracts.problem_codes import ProblemCode


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One broken rule: where (JSON pointer) and what (our own words)."""

    pointer: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A refusal. `detail` states what to do next; `status` is the usual one of the code unless given."""

    code: ProblemCode
    detail: str
    status: int = 0
    violations: tuple[Violation, ...] = ()
    dfid: str | None = None
    supported: str | None = None

    def __post_init__(self) -> None:
        if not self.status:
            object.__setattr__(self, "status", self.code.status)

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code.is_retriable


class ProblemError(Exception):
    """Carries a problem out of the api layer; nothing below that layer raises it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem
