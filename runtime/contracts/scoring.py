"""What decision records of a policy kind are scored by, as the kind declares it; it changes no verdict."""

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from runtime.contracts.document import Contract, is_none


def _as_share(value: Any) -> Any:
    """A share as the text of its decimal: 1 and 0.9 are written so as well, and are exact so far."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return format(Decimal(str(value)), "f") if is_number else value


def _no_fraction(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError("dollars are a decimal in quotes, such as '0.25', never a float")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Share = Annotated[
    str, StringConstraints(pattern=r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$"), BeforeValidator(_as_share)
]
Dollars = Annotated[
    str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$"), BeforeValidator(_no_fraction)
]


class ScoreTargets(Contract):
    """Up to where a flow of the kind has the whole value: what it may take, cost and use."""

    wall_clock_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(default=None, exclude_if=is_none)
    cost_usd: Dollars | None = Field(default=None, exclude_if=is_none)
    tokens: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = Field(default=None, exclude_if=is_none)


class ScoreMinimum(Contract):
    """The least value that is enough, by evaluator; without one, that of the suite."""

    policy: Share | None = Field(default=None, exclude_if=is_none)
    utility: Share | None = Field(default=None, exclude_if=is_none)
    latency: Share | None = Field(default=None, exclude_if=is_none)
    safety: Share | None = Field(default=None, exclude_if=is_none)
    cost: Share | None = Field(default=None, exclude_if=is_none)


class Scoring(Contract):
    """What the decision records of a kind are scored by (`audit.records.evaluators`)."""

    targets: ScoreTargets = Field(default_factory=ScoreTargets)
    minimum: ScoreMinimum = Field(default_factory=ScoreMinimum)
