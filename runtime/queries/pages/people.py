"""Names of people behind the actors `user:<pk>` of entries and rows."""

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

PREFIX = "user:"
MOST_DIGITS = 18
MOST_OWNERS = 500


def names_of(actors: Iterable[str]) -> dict[str, str]:
    """Username by actor, for those actors that are people and still have a row."""
    keys = {actor.removeprefix(PREFIX) for actor in actors if actor.startswith(PREFIX)}
    ids = [int(key) for key in keys if key.isascii() and key.isdigit() and len(key) <= MOST_DIGITS]
    if not ids:
        return {}
    found = get_user_model().objects.filter(pk__in=ids).values_list("pk", "username")
    return {f"{PREFIX}{pk}": name for pk, name in found}


def actor_of_name(text: str) -> str:
    """`user:olga` as the ledger names her, `user:7`; anything else as it is."""
    name = text.removeprefix(PREFIX)
    if name == text or name.isdigit():
        return text
    found = get_user_model().objects.filter(username__iexact=name).values_list("pk", flat=True).first()
    return text if found is None else f"{PREFIX}{found}"


def list_owners() -> list[str]:
    """Who may own an agent: people who may sign in, and groups, by name."""
    users = get_user_model().objects.filter(is_active=True).order_by("username")
    groups = Group.objects.order_by("name")
    return [
        *users.values_list("username", flat=True)[:MOST_OWNERS],
        *groups.values_list("name", flat=True)[:MOST_OWNERS],
    ]
