"""Names of people behind the actors `user:<pk>` of entries and rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User

from audit import actors
from audit.access.roles import Role
from runtime.registry.queries import browser_sessions, owners
from runtime.registry.queries.browser_sessions import BrowserSession

MOST_DIGITS = 18
_ROLES = frozenset(role.value for role in Role)


def names_of(who: Iterable[str]) -> dict[str, str]:
    """Username by actor, for those actors that are people and still have a row."""
    keys = {actor.removeprefix(actors.USER) for actor in who if actors.is_user(actor)}
    ids = [int(key) for key in keys if key.isascii() and key.isdigit() and len(key) <= MOST_DIGITS]
    if not ids:
        return {}
    found = get_user_model().objects.filter(pk__in=ids).values_list("pk", "username")
    return {actors.user(pk): name for pk, name in found}


def is_name_taken(name: str) -> bool:
    """Whether a user, a role or a group is called like it, in whatever case."""
    users = get_user_model().objects.filter(username__iexact=name)
    is_of_role = name.lower() in _ROLES
    return is_of_role or users.exists() or Group.objects.filter(name__iexact=name).exists()


def actor_of_name(text: str) -> str:
    """`user:olga` as the ledger names her, `user:7`; anything else as it is."""
    name = text.removeprefix(actors.USER)
    if name == text or name.isdigit():
        return text
    found = get_user_model().objects.filter(username__iexact=name).values_list("pk", flat=True).first()
    return text if found is None else actors.user(found)


class AccountState(StrEnum):
    """Whether a user can sign in."""

    ACTIVE = "ACTIVE"
    INVITED = "INVITED"
    DEACTIVATED = "DEACTIVATED"


@dataclass(frozen=True, slots=True)
class PersonShown:
    """A user with roles, other groups, and the browsers in which they are signed in."""

    pk: int
    name: str
    state: AccountState
    roles: Sequence[str]
    groups: Sequence[str]
    last_login: datetime | None
    sessions: Sequence[BrowserSession]


@dataclass(frozen=True, slots=True)
class GroupShown:
    """A group that is no role: who is in it, who else could be, and the agents that it owns."""

    pk: int
    name: str
    members: Sequence[tuple[int, str]]
    others: Sequence[tuple[int, str]]
    owns: Sequence[str]


def list_owners() -> tuple[list[str], list[str]]:
    """Who may own an agent, by name: people who may sign in, and groups."""
    groups = Group.objects.order_by("name").values_list("name", flat=True)
    return [name for _, name in list_active()], list(groups)


def list_people(*, at: datetime) -> list[PersonShown]:
    """Every user: those who can sign in first, then by name."""
    held, signed_in = _held(), browser_sessions.list_by_user(at=at)
    rows = User.objects.order_by("-is_active", "username")
    return [_shown(user, held[user.pk], signed_in[user.pk]) for user in rows]


def get_person(*, user_pk: int, at: datetime, this_session: str = "") -> PersonShown | None:
    """One user, or None; `this_session` is the key of the caller's own, which is marked."""
    user = User.objects.filter(pk=user_pk).first()
    if user is None:
        return None
    groups = set(user.groups.values_list("name", flat=True))
    return _shown(user, groups, browser_sessions.list_by_user(at=at, this=this_session)[user_pk])


def _shown(user: User, groups: Collection[str], sessions: Sequence[BrowserSession]) -> PersonShown:
    state = AccountState.ACTIVE if user.has_usable_password() else AccountState.INVITED
    return PersonShown(
        pk=user.pk,
        name=user.get_username(),
        state=state if user.is_active else AccountState.DEACTIVATED,
        roles=sorted(_ROLES.intersection(groups)),
        groups=sorted(set(groups) - _ROLES),
        last_login=user.last_login,
        sessions=sessions,
    )


def list_groups(*, tenant: str) -> list[GroupShown]:
    """Every group that is no role, by name."""
    active, held = list_active(), _held()
    groups = list(Group.objects.exclude(name__in=_ROLES).order_by("name").values_list("pk", "name"))
    owned = owners.list_owned_by(tenant=tenant, owners=[name for _, name in groups])
    return [
        GroupShown(
            pk=pk,
            name=name,
            members=[item for item in active if name in held.get(item[0], ())],
            others=[item for item in active if name not in held.get(item[0], ())],
            owns=owned[name],
        )
        for pk, name in groups
    ]


def list_active() -> list[tuple[int, str]]:
    """Primary key and name of everybody who may sign in, by name."""
    people = get_user_model().objects.filter(is_active=True).order_by("username")
    return list(people.values_list("pk", "username"))


def _held() -> dict[int, set[str]]:
    """The names of everybody's groups, by the user's primary key."""
    held: dict[int, set[str]] = defaultdict(set)
    for pk, name in User.groups.through.objects.values_list("user_id", "group__name"):
        held[pk].add(name)
    return held
