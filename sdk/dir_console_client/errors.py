"""What can go wrong between an agent and a console. A REJECT is a verdict, and no error."""

from collections.abc import Mapping
from typing import Any


class ConsoleError(Exception):
    """Base of all errors of this package."""


class Refused(ConsoleError):
    """The console answered a call with a problem document that trying again would not change.

    `code` says why and `detail` what to do next; `violations` names the members of a body that do not fit.
    """

    def __init__(self, *, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", ""))
        self.detail = str(problem.get("detail", ""))
        self.violations: tuple[Mapping[str, str], ...] = tuple(problem.get("violations") or ())
        super().__init__(f"{status} {self.code}: {self.detail}".rstrip(": "))


class SafeMode(ConsoleError):
    """The agent may not act now: no session can be had, or the console does not answer.

    Nothing is sent until `retry_after_s` seconds have passed; then the next call tries again. What was sent
    before stays judged once: send it again under its key.
    """

    def __init__(self, words: str, *, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(words)
