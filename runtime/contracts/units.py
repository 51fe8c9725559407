"""The units of the amounts of one proposal, as its evidence keeps them."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from runtime.contracts.document import Contract, is_empty

# Compute budgets are the runtime's own: their units are not a matter of the kind.
_BUDGET: Final[Mapping[str, str]] = {
    "tokens": "tokens",
    "cost": "micros USD",
    "tool calls": "calls",
    "time": "s",
}


class AmountUnits(Contract):
    """Units by the name of a parameter, constraint, limit or resource, or by the path of a fact.

    What has no unit is not there.
    """

    params: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    constraints: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    limits: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    resources: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    facts: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)

    def of_finding(self, check: str, subject: str) -> str:
        """Return the unit of the two values that a finding compares; empty if it has none."""
        known: Mapping[str, Mapping[str, str]] = {
            "limits": self.limits,
            "resources": self.resources,
            "budget": _BUDGET,
        }
        return known.get(check, {}).get(subject, "")
