"""What a call has used, as its answer says: tokens and dollars, which count for the budget of its flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from runtime.contracts.kind_steps import Meter
from runtime.kernel.budget_rules import MICRO
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError

TOKENS: Final = "tokens"
COST: Final = "cost_usd"
# Tokens, or micro-dollars: a million dollars. Sums of more would outgrow their columns one day.
MOST: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """What was used, in tokens and micro-dollars, rounded up. `unread` names what the answer does not say."""

    tokens: int = 0
    cost_micros: int = 0
    unread: tuple[str, ...] = ()


def measure(meter: Meter, *, status_code: int | None, body: Mapping[str, Any]) -> Metered:
    """What an answer says. What an expression gives is unread where it is no amount from nothing to MOST."""
    names = {"answer": {"status_code": status_code or 0, "body": dict(body)}}
    found = {
        name: _amount(source, names, per_unit=per_unit)
        for name, source, per_unit in ((TOKENS, meter.tokens, 1), (COST, meter.cost_usd, MICRO))
        if source is not None
    }
    return Metered(
        tokens=found.get(TOKENS) or 0,
        cost_micros=found.get(COST) or 0,
        unread=tuple(name for name, amount in found.items() if amount is None),
    )


def _amount(source: str, names: Mapping[str, Any], *, per_unit: int) -> int | None:
    """An amount in the smallest unit, rounded up; None for what is none."""
    try:
        said = language.compile_expression(source).evaluate(names)
    except ExpressionError:
        return None
    # Bounded before it is multiplied: a text may hold an exponent that no arithmetic is made for.
    if not language.is_amount(said) or not 0 <= (amount := Decimal(str(said))) <= MOST:
        return None
    exact = int((amount * per_unit).to_integral_value(rounding=ROUND_CEILING))
    return exact if exact <= MOST else None
