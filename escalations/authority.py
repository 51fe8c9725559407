"""What a person may decide by limits, read for someone who is not signed in here; and who may instead."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from django.contrib.auth.models import User

from audit.access.permissions import roles_of
from audit.access.roles import Role
from escalations import policy
from escalations.contracts import Action
from escalations.policy import DECIDING_ROLES, Answer, Denied, EscalationContext, Person
from runtime.contracts import timestamps
from runtime.contracts.problem_codes import ProblemCode
from runtime.kernel.authority_limits import AuthorityLimit
from runtime.registry.queries import authority_rows, group_members

MOST_ASKED = 20
NAMED = 2


def person_of(
    user: User, *, tenant: str, at: datetime, limits: Sequence[AuthorityLimit] | None = None
) -> Person:
    """A person as policy knows one, without a confirmed password and never alone.

    `limits` are all that are set, of anybody; they are read here unless the caller asks about several people.
    """
    held = group_members.held_of(user_pk=user.pk, at=at)
    roles = frozenset(role.value for role in roles_of(user, groups=held.now))
    return Person(
        user_id=user.pk,
        username=user.get_username(),
        roles=roles,
        groups=held.lately,
        groups_now=held.now,
        confirmed_at_ms=None,
        is_solo=False,
        limits=authority_rows.list_for(tenant=tenant, user_pk=user.pk, roles=roles)
        if limits is None
        else tuple(limits),
    )


def with_names(
    answer: Denied,
    action: Action,
    situation: EscalationContext,
    *,
    tenant: str,
    at: datetime,
    changed: Mapping[str, int] | None = None,
) -> str:
    """Why it is denied; where it is a limit, with who may decide instead."""
    if answer.code is not ProblemCode.AUTHORITY_EXCEEDED:
        return answer.why
    holders = group_members.list_holders(groups=DECIDING_ROLES, at=at)
    active = [pk for pk, until in holders.items() if until is None]
    able = _list_able(active, action, situation, tenant=tenant, at=at, changed=changed)
    if not able and len(active) > MOST_ASKED:
        return f"{answer.why} Abort, or ask an admin who may decide it."
    if not able:
        return f"{answer.why} Nobody else here may decide it either: abort, or ask an admin."
    names = [person.username for person in able[:NAMED]]
    if len(able) > NAMED:
        are_seniors = all(Role.SENIOR in person.roles for person in able)
        names.append(f"another {'senior' if are_seniors else 'person'}")
    return f"{answer.why} {_either(names)} may decide."


def refine(
    answers: Mapping[Action, Answer], situation: EscalationContext, *, tenant: str, at: datetime
) -> dict[Action, Answer]:
    """The answers of a page, those about a limit with the names of who may decide instead."""
    named: dict[str, str] = {}
    found: dict[Action, Answer] = {}
    for action, answer in answers.items():
        found[action] = answer
        if isinstance(answer, Denied) and answer.code is ProblemCode.AUTHORITY_EXCEEDED:
            if answer.why not in named:
                named[answer.why] = with_names(answer, action, situation, tenant=tenant, at=at)
            found[action] = Denied(answer.code, named[answer.why])
    return found


def _list_able(
    active: Collection[int],
    action: Action,
    situation: EscalationContext,
    *,
    tenant: str,
    at: datetime,
    changed: Mapping[str, int] | None,
) -> list[Person]:
    now_ms, limits = timestamps.to_ms(at), authority_rows.list_all(tenant=tenant)
    able = []
    for user in User.objects.filter(pk__in=active).order_by("username")[:MOST_ASKED]:
        person = person_of(user, tenant=tenant, at=at, limits=limits)
        is_above = policy.beyond_authority(action, person, situation, changed=changed) is not None
        is_tied = bool(policy.ties(person, situation, now_ms=now_ms))
        if not is_above and not is_tied and not policy.counts_as_first(person, situation):
            able.append(person)
    return able


def _either(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
