"""The reason that a person gives for what they do, before it is kept in the ledger."""

from typing import Final

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

LONGEST: Final = 500


def refuse(reason: str) -> Problem | None:
    """422 for a reason that is missing, longer than LONGEST characters, or has a NUL; None for a good one."""
    if 0 < len(reason.strip()) <= LONGEST and "\x00" not in reason:
        return None
    detail = f"Give a reason of at most {LONGEST} characters. It is kept in the ledger."
    return Problem(code=ProblemCode.REASON_MISSING, detail=detail)
