"""Every item of a conformance run, in its order."""

from typing import Final

from dir_console.conformance import bypass, dare, invariants, readiness
from dir_console.conformance.items import Check

CHECKS: Final[tuple[Check, ...]] = (
    *dare.CHECKS,
    *readiness.CHECKS,
    *invariants.CHECKS,
    *bypass.CHECKS,
)
