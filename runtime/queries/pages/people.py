"""Names of people behind the actors `user:<pk>` of entries and rows."""

from collections.abc import Iterable

from django.contrib.auth import get_user_model

PREFIX = "user:"
MOST_DIGITS = 18


def names_of(actors: Iterable[str]) -> dict[str, str]:
    """Username by actor, for those actors that are people and still have a row."""
    keys = {actor.removeprefix(PREFIX) for actor in actors if actor.startswith(PREFIX)}
    ids = [int(key) for key in keys if key.isascii() and key.isdigit() and len(key) <= MOST_DIGITS]
    if not ids:
        return {}
    found = get_user_model().objects.filter(pk__in=ids).values_list("pk", "username")
    return {f"{PREFIX}{pk}": name for pk, name in found}
