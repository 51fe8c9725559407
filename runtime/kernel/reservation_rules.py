"""Claims against capacities: what is wanted, and why it does not fit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit import canonical
from runtime.contracts.facts import ResourceFacts
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.verdict import ResourceClaim
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ErrorCode, ExpressionError


class Shortage(StrEnum):
    """Why a claim does not fit. CONTENTION passes by itself; LIQUIDITY does not (ADR 0010)."""

    LIQUIDITY = "LIQUIDITY"
    CONTENTION = "CONTENTION"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A claim whose amount could not be worked out, in our own words."""

    resource: str
    message: str


def wanted(kind: KindDocument, names: Mapping[str, Any]) -> tuple[ResourceClaim | Unreadable, ...]:
    """The kind's claims by resource, in the order of names: the order in which rows are locked.

    Claims on the same resource add up, and one of nothing is left out.
    """
    known = language.shared(names)
    amounts: dict[str, int] = {}
    unreadable: dict[str, Unreadable] = {}
    for claim in kind.claims:
        claimed = amounts.get(claim.resource, 0)
        try:
            value = canonical.normalise(language.compile_expression(claim.amount).evaluate(known))
            if isinstance(value, bool) or not isinstance(value, int):
                raise ExpressionError(ErrorCode.NOT_NUMBER)
            # A claim below nothing would give capacity away.
            if not 0 <= value <= canonical.MAX_SAFE_INTEGER - claimed:
                raise ExpressionError(ErrorCode.UNSAFE_VALUE)
            amounts[claim.resource] = claimed + value
        except ExpressionError as error:
            unreadable.setdefault(claim.resource, Unreadable(claim.resource, error.message))
    found: dict[str, ResourceClaim | Unreadable] = {
        name: ResourceClaim(resource=name, amount=amount) for name, amount in amounts.items() if amount
    }
    return tuple(item for _, item in sorted({**found, **unreadable}.items()))


def shortage(claim: ResourceClaim, resource: ResourceFacts) -> Shortage | None:
    """Why `claim` does not fit into what `resource` has left; None when it fits."""
    if claim.amount > available(resource, even_reserved=True):
        return Shortage.LIQUIDITY
    return Shortage.CONTENTION if claim.amount > available(resource) else None


def available(resource: ResourceFacts, *, even_reserved: bool = False) -> int:
    """What is left of a capacity; with `even_reserved`, as if every reservation were free."""
    return resource.capacity - resource.committed - (0 if even_reserved else resource.reserved)


def by_name(resources: Iterable[ResourceFacts]) -> dict[str, ResourceFacts]:
    """Resources by their names."""
    return {resource.name: resource for resource in resources}
