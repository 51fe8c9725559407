"""What was predicted of an effect beside what was written after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from audit import canonical
from runtime.contracts.outcome import FactChange


class Standing(StrEnum):
    """How a predicted fact came out. SAME_CHANGE: by as much, from another value than was seen."""

    AS_PREDICTED = "AS_PREDICTED"
    SAME_CHANGE = "SAME_CHANGE"
    DEVIATES = "DEVIATES"
    NOT_OBSERVED = "NOT_OBSERVED"


@dataclass(frozen=True, slots=True)
class Compared:
    """A predicted fact: `current` and `proposed` as predicted, `before` and `after` as written."""

    fact: str
    current: Any
    proposed: Any
    standing: Standing
    before: Any = None
    after: Any = None


def compare(*, expected: Sequence[Any], written: Sequence[FactChange]) -> tuple[Compared, ...]:
    """Every predicted fact in its order; of several writes to one fact, the first before and the last after.

    What no step wrote is NOT_OBSERVED, which says nothing against the prediction.
    """
    found = []
    for effect in expected:
        if not isinstance(effect, Mapping) or not isinstance(effect.get("fact"), str):
            continue
        current, proposed = effect.get("current"), effect.get("proposed", effect.get("value"))
        changes = [change for change in written if change.fact == effect["fact"]]
        if not changes:
            standing, before, after = Standing.NOT_OBSERVED, None, None
        else:
            before, after = changes[0].before, changes[-1].after
            standing = _standing(current, proposed, before, after)
        found.append(
            Compared(
                fact=effect["fact"],
                current=current,
                proposed=proposed,
                standing=standing,
                before=before,
                after=after,
            )
        )
    return tuple(found)


def _standing(current: Any, proposed: Any, before: Any, after: Any) -> Standing:
    # Bytes, not ==: Python holds True equal to 1.
    if canonical.encode(canonical.normalise(proposed)) == canonical.encode(canonical.normalise(after)):
        return Standing.AS_PREDICTED
    values = (current, proposed, before, after)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        wanted, seen = (
            Decimal(str(end)) - Decimal(str(start)) for start, end in ((current, proposed), (before, after))
        )
        return Standing.SAME_CHANGE if wanted == seen else Standing.DEVIATES
    return Standing.DEVIATES
