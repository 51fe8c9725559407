"""Refusals of the API as values (RFC 9457); `dir_console.problems` alone turns one into HTTP."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One broken rule: where (JSON pointer) and what (our own words)."""

    pointer: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A refusal. `detail` states what to do next; `retriable` whether the same call may succeed later."""

    status: int
    code: str
    detail: str
    title: str = ""
    violations: tuple[Violation, ...] = ()
    dfid: str | None = None
    retriable: bool = False
    supported: str | None = None


class ProblemError(Exception):
    """Carries a problem out of the api layer; nothing below that layer raises it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem
