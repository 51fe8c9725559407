"""The acting person for policy checks: from the session and the current database, never from the form."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from allauth.account.authentication import get_authentication_records
from django.contrib.auth.models import User
from django.http import HttpRequest

from audit.access.permissions import tenant_of
from escalations import authority, policy
from escalations.policy import DECIDING_ROLES, EscalationContext, Person
from runtime.contracts import timestamps
from runtime.core import clock
from runtime.kernel import separation
from runtime.registry.queries import group_members

MOST_NAMED = 20


def person_of(request: HttpRequest) -> Person:
    """Return the signed-in person with roles, groups and the time of the last password confirmation."""
    user, at = cast(User, request.user), clock.now()
    records = get_authentication_records(request, user)
    confirmed = [int(record["at"] * 1000) for record in records if record.get("method") == "password"]
    deciders = group_members.list_holders(groups=DECIDING_ROLES, at=at)
    return replace(
        authority.person_of(user, tenant=tenant_of(user), at=at),
        confirmed_at_ms=max(confirmed, default=None),
        is_solo=deciders.keys() <= {user.pk},
    )


@dataclass(frozen=True, slots=True)
class Others:
    """Who else can decide here, if the person asking cannot.

    `bound` cannot as long as they own the agent. `alone_from` is when the person asking becomes the only
    decider; None if there is another one.
    """

    free: Sequence[str]
    later: Sequence[tuple[str, datetime]]
    bound: Sequence[str]
    alone_from: datetime | None


def others(person: Person, situation: EscalationContext, *, at: datetime) -> Others:
    """Return when each person with a deciding role can decide on this, by name."""
    holders = group_members.list_holders(groups=DECIDING_ROLES, at=at)
    active = [pk for pk, until in holders.items() if until is None]
    named = User.objects.filter(pk__in=active).order_by("username").values_list("pk", "username")
    free, later, bound = list[str](), list[tuple[str, datetime]](), list[str]()
    for pk, name in named[:MOST_NAMED]:
        held = group_members.held_of(user_pk=pk, at=at)
        them = Person(
            user_id=pk,
            username=name,
            roles=frozenset(),
            groups=held.lately,
            groups_now=held.now,
            confirmed_at_ms=None,
            is_solo=False,
        )
        if not policy.passes_gate(them, situation):
            continue
        ties = policy.ties(them, situation, now_ms=timestamps.to_ms(at))
        if not ties:
            free.append(name)
        elif ties[0].until_ms is None:
            bound.append(name)
        else:
            later.append((name, timestamps.from_ms(ties[0].until_ms)))
    gone = [until for until in holders.values() if until is not None]
    is_last = gone and set(active) <= {person.user_id}
    alone_from = max(gone) + timedelta(days=separation.DAYS) if is_last else None
    return Others(free, sorted(later, key=lambda item: item[1]), bound, alone_from)
