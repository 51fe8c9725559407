"""Figures: parameters that the runtime works out for itself, beside what the agent states of them."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import evaluate, language


@dataclass(frozen=True, slots=True)
class Figured:
    """A parameter as it was stated (an amount; None: it was not), and as the runtime works it out."""

    param: str
    stated: Any
    live: int | float

    @property
    def greater(self) -> int | float | str:
        """What bounds are asked about: neither the agent nor the market can keep it small alone.

        A decimal number in text counts as that number: it is what would be sent.
        """
        stated: int | float | str | None = self.stated
        if stated is None or Decimal(str(stated)) <= Decimal(str(self.live)):
            return self.live
        return stated


def work_out(kind: KindDocument | None, names: language.Names) -> tuple[Figured, ...]:
    """The kind's figures over the names of `scope.WORKED_OUT`.

    One that cannot be worked out, or of which no amount was stated, is left out, so that an expression that
    reads it does not hold.
    """
    found = []
    for figure in () if kind is None else kind.figures:
        live, _ = evaluate.amount(figure.value, names)
        stated = names["params"].get(figure.param)
        if isinstance(live, int | float) and (stated is None or language.is_amount(stated)):
            found.append(Figured(param=figure.param, stated=stated, live=live))
    return tuple(found)
