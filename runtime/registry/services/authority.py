"""Limits of authority: an admin sets them for a role or a person, and never widens their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User

from audit import actors, events, ledger
from audit.access.permissions import roles_of
from audit.access.roles import HOLDERS, Permission
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.kernel import authority_limits
from runtime.kernel.authority_limits import ROLE, AuthorityLimit
from runtime.registry.models import AuthorityLimitRow
from runtime.registry.queries import authority_rows, kind_units_in_use
from runtime.registry.queries.people import MOST_DIGITS
from runtime.registry.services import dual_control

MOST = 10**15 - 1
_ROLES = HOLDERS[Permission.DECIDE]


def set_limit(*, tenant: str, wanted: AuthorityLimit, actor: str) -> AuthorityLimit | Problem:
    """Set one limit in place of the one with the same holder, kind and unit.

    422 for what is no holder, kind, unit or amount; 403 SEPARATION_OF_DUTY where it widens what the admin may
    decide and another admin is there to do it.
    """
    return _change(tenant=tenant, wanted=wanted, actor=actor, removes=False)


def remove_limit(*, tenant: str, held: AuthorityLimit, actor: str) -> AuthorityLimit | Problem:
    """Remove one limit; 404 where there is none like it, 403 as for setting one."""
    return _change(tenant=tenant, wanted=held, actor=actor, removes=True)


@transactions.retried
def _change(*, tenant: str, wanted: AuthorityLimit, actor: str, removes: bool) -> AuthorityLimit | Problem:
    unfit = None if removes else _unfit(tenant, wanted)
    if unfit is not None:
        return unfit
    before = authority_rows.list_all(tenant=tenant)
    held = [limit for limit in before if _place(limit) == _place(wanted)]
    if removes and not held:
        return Problem(code=ProblemCode.NOT_FOUND, detail="This limit does not exist any longer.")
    kept = [limit for limit in before if limit not in held]
    after = kept if removes else [*kept, wanted]
    at = ledger.time_of_next(tenant=tenant, stream=actor, at=clock.now())
    solo = False
    if _widens_own(before, after, actor=actor):
        alone = dual_control.others(actor=actor, at=at)
        if not alone.is_now:
            detail = f"This would raise your own limit: another admin must do it.{alone.words}"
            return Problem(code=ProblemCode.SEPARATION_OF_DUTY, detail=detail)
        solo = True
    place = {"holder": wanted.holder, "policy_kind": wanted.policy_kind, "unit": wanted.unit}
    of_impact = wanted.impact is not None
    row: dict[str, Any] = {**place, "tenant": tenant, "amount__isnull": of_impact}
    if removes:
        AuthorityLimitRow.objects.filter(**row).delete()
    else:
        told = {"amount": wanted.amount, "impact": wanted.impact or "", "changed_at": at, "changed_by": actor}
        AuthorityLimitRow.objects.update_or_create(**row, defaults=told)
    changed = events.LimitChanged(
        **place,
        amount=None if removes else wanted.amount,
        impact=None if removes else wanted.impact,
        of_impact=of_impact,
        solo=solo,
    )
    ledger.append_to(tenant=tenant, stream=actor, actor=actor, at=at, events=[changed])
    return wanted


def in_the_one_unit(*, tenant: str, wanted: AuthorityLimit) -> AuthorityLimit | Problem:
    """The limit in the unit of its kind, where the form names none: 422 where the kind counts in several."""
    if wanted.unit or wanted.impact is not None:
        return wanted
    known = sorted(kind_units_in_use.list_units(tenant=tenant, policy_kind=wanted.policy_kind))
    if len(known) > 1:
        return _wrong("unit", f"Choose the unit of the amount: {', '.join(known)}.")
    return replace(wanted, unit=known[0] if known else "")


def _place(limit: AuthorityLimit) -> tuple[str, str, authority_limits.Measure]:
    return limit.holder, limit.policy_kind, limit.measure


def _widens_own(before: Sequence[AuthorityLimit], after: Sequence[AuthorityLimit], *, actor: str) -> bool:
    user = User.objects.filter(pk=actor.removeprefix(actors.USER)).first()
    roles = {role.value for role in roles_of(user) & _ROLES}
    return authority_limits.is_raised(before, after, holder=actor, roles=roles)


def _unfit(tenant: str, wanted: AuthorityLimit) -> Problem | None:
    if not _is_holder(wanted.holder):
        return _wrong("holder", "Choose a role that decides, or a person who may sign in.")
    if wanted.policy_kind and wanted.policy_kind not in kind_units_in_use.list_kinds(tenant=tenant):
        return _wrong("kind", "Choose an active policy kind, or all kinds.")
    if wanted.impact is not None:
        return None
    known = kind_units_in_use.list_units(tenant=tenant, policy_kind=wanted.policy_kind)
    if wanted.unit and wanted.unit not in known:
        return _wrong("unit", "Choose a unit in which the policy kind counts.")
    if wanted.amount is None or not 0 <= wanted.amount <= MOST:
        return _wrong("limit", f"Give the limit as a whole number from 0 to {MOST:,}, or an impact.")
    return None


def _is_holder(holder: str) -> bool:
    if holder.startswith(ROLE):
        return holder.removeprefix(ROLE) in _ROLES
    key = holder.removeprefix(actors.USER)
    is_key = key != holder and key.isascii() and key.isdigit() and len(key) <= MOST_DIGITS
    return is_key and User.objects.filter(pk=key, is_active=True).exists()


def _wrong(field: str, detail: str) -> Problem:
    return Problem(
        code=ProblemCode.INVALID_REQUEST,
        detail=detail,
        violations=(Violation(pointer=field, message=detail),),
    )
