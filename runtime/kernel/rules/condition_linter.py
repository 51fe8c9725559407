"""What people may attach to a decision: far less than a kind may ask, as it is asked again in the claim.

The claim holds the write transaction while it asks. So everything a decision attaches is asked within a few
milliseconds.
"""

from functools import lru_cache

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import linter, scope

MAX_CONDITIONS = 20
# Nanoseconds at worst, of one condition and of all of a decision.
MAX_WORK = 2_000_000
MAX_TOTAL_WORK = 5_000_000
# What was attached before there was a bound is asked up to this one.
STOPPING_WORK = 100_000_000


def lint_conditions(conditions: tuple[str, ...], kind: KindDocument | None) -> tuple[str, ...]:
    """What is wrong with the conditions of a decision on a proposal of `kind`, as plain sentences."""
    if len(conditions) > MAX_CONDITIONS:
        return (f"There are {len(conditions)} conditions, and at most {MAX_CONDITIONS} are allowed",)
    linted = [_lint(condition, kind) for condition in conditions]
    for condition, one in zip(conditions, linted, strict=True):
        if one.found:
            return (f"The condition {condition!r}: {'; '.join(one.found)}",)
    total = sum(one.work for one in linted)
    if total <= MAX_TOTAL_WORK:
        return ()
    return (
        f"The conditions together may take {total / 1e6:,.1f} ms, and at most "
        f"{MAX_TOTAL_WORK / 1e6:,.0f} ms is allowed: remove some, or make them shorter",
    )


@lru_cache(maxsize=1024)
def are_safe(conditions: tuple[str, ...], kind_body: bytes) -> bool:
    """Whether stored conditions may be asked at all; worked out once."""
    kind = KindDocument.from_bytes(kind_body)
    return sum(_lint(condition, kind).work for condition in conditions) <= STOPPING_WORK


def _lint(condition: str, kind: KindDocument | None) -> linter.Linted:
    return linter.lint(
        condition,
        names=scope.JUDGED,
        params_schema=None if kind is None else kind.params_schema,
        constraints_schema=None if kind is None else kind.constraints_schema,
        most=MAX_WORK,
    )
