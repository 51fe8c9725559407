"""The limits of authority as admins have set them."""

from collections.abc import Collection, Iterable
from typing import Final

from django.db.models import QuerySet

from audit import actors, statements
from runtime.contracts.states import Impact
from runtime.kernel.authority_limits import ROLE, AuthorityLimit
from runtime.registry.models import AuthorityLimitRow


def list_for(*, tenant: str, user_pk: int, roles: Collection[str]) -> tuple[AuthorityLimit, ...]:
    """Every limit that was set for a person, or for a role that the person has."""
    holders = [actors.user(user_pk), *(f"{ROLE}{role}" for role in roles)]
    return _read(_OF_HOLDERS.rows(tenant=tenant, holders=holders))


def list_all(*, tenant: str) -> tuple[AuthorityLimit, ...]:
    """Every limit, by holder and kind."""
    return _read(_in_order(AuthorityLimitRow.objects.of(tenant)))


def _of_holders(*, tenant: str, holders: list[str]) -> QuerySet[AuthorityLimitRow]:
    return _in_order(AuthorityLimitRow.objects.of(tenant).filter(holder__in=holders))


_OF_HOLDERS: Final = statements.Read(_of_holders)


def _in_order(rows: QuerySet[AuthorityLimitRow]) -> QuerySet[AuthorityLimitRow]:
    return rows.order_by("holder", "policy_kind", "unit", "pk")


def _read(rows: Iterable[AuthorityLimitRow]) -> tuple[AuthorityLimit, ...]:
    return tuple(
        AuthorityLimit(
            holder=row.holder,
            policy_kind=row.policy_kind,
            unit=row.unit,
            amount=row.amount,
            # A word that is none, which only a rewritten row holds, allows least.
            impact=None if row.amount is not None else _impact(row.impact),
        )
        for row in rows
    )


def _impact(word: str) -> Impact:
    return Impact(word) if word in Impact.values() else Impact.LOW_IMPACT
