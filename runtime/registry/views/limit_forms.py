"""The limits of authority on the page of people: what is shown, and what its forms send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from audit import actors
from audit.access.roles import HOLDERS, Permission
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.core.views import labels, query_params
from runtime.core.views.labels import Badge
from runtime.kernel import units
from runtime.kernel.authority_limits import ROLE, AuthorityLimit
from runtime.registry.queries import authority_rows, kind_units_in_use, people


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit; `holder`, `kind`, `unit`, `limit` and `limit_impact` are what its form sends back."""

    holder: str
    name: str
    is_role: bool
    kind: str
    unit: str
    limit: str
    limit_impact: str
    amount: str
    badge: Badge | None


@dataclass(frozen=True, slots=True)
class LimitsShown:
    """All limits, and what the form offers: pairs of value and word."""

    rows: Sequence[LimitRow]
    roles: Sequence[tuple[str, str]]
    people: Sequence[tuple[str, str]]
    kinds: Sequence[str]
    units: Sequence[str]
    impacts: Sequence[tuple[str, str]]


def shown(*, tenant: str) -> LimitsShown:
    """Read the limits and the choices of the form."""
    limits = authority_rows.list_all(tenant=tenant)
    names = people.names_of(limit.holder for limit in limits)
    lighter = [impact for impact in Impact if impact is not Impact.CRITICAL]
    return LimitsShown(
        rows=[_row(limit, names) for limit in limits],
        roles=[(f"{ROLE}{role}", role.value) for role in sorted(HOLDERS[Permission.DECIDE])],
        people=[(actors.user(pk), name) for pk, name in people.list_active()],
        kinds=kind_units_in_use.list_kinds(tenant=tenant),
        units=sorted(kind_units_in_use.list_units(tenant=tenant)),
        impacts=[(impact.value, labels.badge(labels.IMPACTS, impact).word) for impact in lighter],
    )


def read(post: Mapping[str, str]) -> AuthorityLimit | Problem:
    """Read a limit from a form: an amount or an impact, not both."""
    amount, impact = post.get("limit", "").strip(), post.get("limit_impact", "")
    number = query_params.whole(amount.replace(",", ""))
    is_one = bool(amount) != bool(impact)
    if not is_one or (amount and number is None) or (impact and impact not in Impact.values()):
        detail = "Give the limit as a whole number in its unit, or choose an impact."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    return AuthorityLimit(
        holder=query_params.text(post.get("holder", "")),
        policy_kind=query_params.text(post.get("kind", "")),
        unit="" if impact else query_params.text(post.get("unit", "")),
        amount=number,
        impact=Impact(impact) if impact else None,
    )


def _row(limit: AuthorityLimit, names: Mapping[str, str]) -> LimitRow:
    is_role = limit.holder.startswith(ROLE)
    return LimitRow(
        holder=limit.holder,
        name=limit.holder.removeprefix(ROLE) if is_role else names.get(limit.holder, limit.holder),
        is_role=is_role,
        kind=limit.policy_kind,
        unit=limit.unit,
        limit="" if limit.amount is None else str(limit.amount),
        limit_impact=limit.impact or "",
        amount="" if limit.amount is None else units.write(Decimal(limit.amount), limit.unit).strip(),
        badge=None if limit.impact is None else labels.badge(labels.IMPACTS, limit.impact),
    )
