"""The limits of authority as admins have set them."""

from collections.abc import Collection

from django.db.models import QuerySet

from audit import actors
from runtime.contracts.states import Impact
from runtime.kernel.authority_limits import ROLE, AuthorityLimit
from runtime.registry.models import AuthorityLimitRow


def list_for(*, tenant: str, user_pk: int, roles: Collection[str]) -> tuple[AuthorityLimit, ...]:
    """Every limit that was set for a person, or for a role that the person has."""
    holders = [actors.user(user_pk), *(f"{ROLE}{role}" for role in roles)]
    return _read(AuthorityLimitRow.objects.of(tenant).filter(holder__in=holders))


def list_all(*, tenant: str) -> tuple[AuthorityLimit, ...]:
    """Every limit, by holder and kind."""
    return _read(AuthorityLimitRow.objects.of(tenant))


def _read(rows: QuerySet[AuthorityLimitRow]) -> tuple[AuthorityLimit, ...]:
    return tuple(
        AuthorityLimit(
            holder=row.holder,
            policy_kind=row.policy_kind,
            unit=row.unit,
            amount=row.amount,
            # A word that is none, which only a rewritten row holds, allows least.
            impact=None if row.amount is not None else _impact(row.impact),
        )
        for row in rows.order_by("holder", "policy_kind", "unit", "pk")
    )


def _impact(word: str) -> Impact:
    return Impact(word) if word in Impact.values() else Impact.LOW_IMPACT
