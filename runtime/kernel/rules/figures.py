"""Figures: parameters that the runtime works out for itself, beside what the agent states of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contracts.policy_kind import PolicyKind
from runtime.kernel.rules import evaluate, language


@dataclass(frozen=True, slots=True)
class Figured:
    """A parameter as it was stated (None: it was not), and as the runtime works it out."""

    param: str
    stated: Any
    live: int | float

    @property
    def greater(self) -> int | float:
        """What bounds are asked about: neither the agent nor the market can keep it small alone."""
        stated = self.stated
        if isinstance(stated, bool) or not isinstance(stated, int | float):
            return self.live
        return max(stated, self.live)


def work_out(kind: PolicyKind | None, names: Mapping[str, Any]) -> tuple[Figured, ...]:
    """The kind's figures over the names of `names.WORKED_OUT`.

    One that cannot be worked out is left out, so that an expression that reads it does not hold.
    """
    found, names = [], language.shared(names)
    for figure in () if kind is None else kind.figures:
        live, _ = evaluate.amount(figure.value, names)
        if isinstance(live, int | float):
            found.append(Figured(param=figure.param, stated=names["params"].get(figure.param), live=live))
    return tuple(found)
