"""How far the providers agree who were consulted (IAE 3.4.2, consensus metrics and dissent).

Pure. What they chose are claims: nothing here is a finding of the runtime, and no rule reads it.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from runtime.contracts.consultation import Consensus, ConsultationState, Consulted, Dissenting

# Shares are stored with so many decimals: 2 of 3 is no finite number.
_DECIMALS = 4


def measure(consulted: Sequence[Consulted], *, selected: str | None) -> Consensus:
    """The metrics over those that count; `selected` is the id of the option that was selected.

    Of two that were chosen equally often, the one that was selected leads, then the first by name.
    """
    counted = [one for one in consulted if one.counts]
    answers = [one for one in counted if one.state is ConsultationState.ANSWERED and one.choice is not None]
    waiting = sum(one.state is ConsultationState.ASKED for one in counted)
    votes = Counter(one.choice for one in answers if one.choice is not None)
    leading = min(votes, key=lambda choice: (-votes[choice], choice != selected, choice), default=None)
    total = len(answers)
    against = selected if selected is not None else leading
    return Consensus(
        asked=len(counted),
        answered=total,
        abstained=len(counted) - total - waiting,
        votes=dict(sorted(votes.items())),
        leading=leading,
        agreement=None if leading is None else _share(Fraction(votes[leading], total)),
        support=None if leading is None or selected is None else _share(Fraction(votes[selected], total)),
        dispersion=None
        if leading is None
        else _share(1 - sum((Fraction(count, total) ** 2 for count in votes.values()), start=Fraction(0))),
        dissent=tuple(
            Dissenting(provider=one.provider, choice=one.choice, reason=one.reason)
            for one in answers
            if one.choice is not None and one.choice != against
        ),
    )


def lowered(confidence: float, found: Consensus) -> float:
    """The confidence that is left: never more than was stated, and no more than the share that agrees."""
    return confidence if found.support is None else min(confidence, found.support)


def objection(found: Consensus, *, selected: str) -> str:
    """Why a person should decide after the answers; empty where nothing in them asks for one."""
    if not found.asked:
        return ""
    if not found.answered:
        return f"Nobody of the {found.asked} that were consulted answered in time."
    if found.leading != selected:
        return f"Of {found.answered} that were consulted and answered, most chose {found.leading}."
    return ""


def _share(value: Fraction) -> float:
    return float(round(value, _DECIMALS))
