"""How sure the lexical guard is of each sort of finding, in basis points, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runtime.contracts.guard import FindingCode

F = FindingCode


@dataclass(frozen=True, slots=True)
class Weight:
    """`group`: findings of different groups speak independently of each other."""

    bps: int
    group: str
    why: str


WEIGHTS: Mapping[FindingCode, Weight] = MappingProxyType(
    {
        F.ACTION_REVERSED: Weight(
            9700,
            "action",
            "It denies the proposed action and affirms the opposite: two words, one direction.",
        ),
        F.ACTION_OPPOSED: Weight(
            9000, "action", "Only the opposite is spoken of; the text may still tell of something else."
        ),
        F.ACTION_NEGATED: Weight(
            8500, "action", "The proposed action is denied; a negation may reach less far than it looks."
        ),
        F.ACTION_DOUBTFUL: Weight(
            5500, "action", "The word may tell of the past, of a state, or of a neighbouring action."
        ),
        F.OTHER_CHOICE: Weight(
            8000, "name", "Another value that this very field may hold is named, and its own is not."
        ),
        F.OTHER_ID: Weight(7500, "name", "Another id of the same make is named, and the proposal's is not."),
        F.OTHER_SYMBOL: Weight(
            5000, "name", "Something that looks like a symbol is named; it may be an abbreviation."
        ),
        F.AMOUNT_DIFFERS: Weight(
            6500,
            "amount",
            "No amount of money in the text is near one proposed; it may be about another one.",
        ),
        F.COUNT_DIFFERS: Weight(
            7500, "amount", "A number of the very thing proposed is given, and it is another number."
        ),
    }
)
# Findings of two groups agree by accident less often than either is wrong alone.
AGREEING_BPS = 9500
# The most this guard ever says: below the default of an emergency stop, on purpose.
MOST_BPS = max(AGREEING_BPS, *(weight.bps for weight in WEIGHTS.values()))


def combined(codes: tuple[FindingCode, ...]) -> int:
    """The confidence in all findings together, in basis points; 0 without any."""
    if not codes:
        return 0
    groups = {WEIGHTS[code].group for code in codes}
    surest = max(WEIGHTS[code].bps for code in codes)
    return max(surest, AGREEING_BPS) if len(groups) > 1 else surest
