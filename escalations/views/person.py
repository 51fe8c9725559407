"""Who asks, as policy may know: from the session and the database as they are now, never from the form."""

from allauth.account.authentication import get_authentication_records
from django.contrib.auth.models import User
from django.http import HttpRequest

from audit.permissions import roles_of
from escalations.policy import DECIDING_ROLES, Person


def person_of(request: HttpRequest) -> Person:
    """The signed-in person with roles, groups and the time of the last password."""
    user = request.user
    records = get_authentication_records(request, user)
    confirmed = [int(record["at"] * 1000) for record in records if record.get("method") == "password"]
    memberships = User.groups.through.objects.filter(user_id=int(user.pk or 0))
    return Person(
        user_id=int(user.pk or 0),
        username=user.get_username(),
        roles=frozenset(role.value for role in roles_of(user)),
        groups=frozenset(memberships.values_list("group__name", flat=True)),
        confirmed_at_ms=max(confirmed, default=None),
        is_solo=_is_solo(),
    )


def _is_solo() -> bool:
    """One person runs this installation: there is nobody else who could decide (recorded on the decision)."""
    deciders = User.objects.filter(is_active=True, groups__name__in=DECIDING_ROLES).distinct()
    return deciders.count() == 1
