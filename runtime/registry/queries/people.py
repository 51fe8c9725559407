"""Names of people behind the actors `user:<pk>` of entries and rows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User

from audit import actors
from audit.access.roles import Role
from runtime.registry.queries import owners

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


def actor_of_name(text: str) -> str:
    """`user:olga` as the ledger names her, `user:7`; anything else as it is."""
    name = text.removeprefix(actors.USER)
    if name == text or name.isdigit():
        return text
    found = get_user_model().objects.filter(username__iexact=name).values_list("pk", flat=True).first()
    return text if found is None else actors.user(found)


@dataclass(frozen=True, slots=True)
class PersonShown:
    """A user who may sign in, with roles and other groups."""

    name: str
    roles: Sequence[str]
    groups: Sequence[str]


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
    return [name for _, name in _active()], list(groups)


def list_people() -> list[PersonShown]:
    """Everybody who may sign in, by name."""
    held = _held()
    made = []
    for pk, name in _active():
        groups = sorted(held.get(pk, ()))
        roles = [group for group in groups if group in _ROLES]
        made.append(PersonShown(name, roles, [group for group in groups if group not in _ROLES]))
    return made


def list_groups(*, tenant: str) -> list[GroupShown]:
    """Every group that is no role, by name."""
    active, held = _active(), _held()
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


def _active() -> list[tuple[int, str]]:
    people = get_user_model().objects.filter(is_active=True).order_by("username")
    return list(people.values_list("pk", "username"))


def _held() -> dict[int, set[str]]:
    """The names of everybody's groups, by the user's primary key."""
    held: dict[int, set[str]] = defaultdict(set)
    for pk, name in User.groups.through.objects.values_list("user_id", "group__name"):
        held[pk].add(name)
    return held
