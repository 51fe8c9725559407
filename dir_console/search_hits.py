"""What a search finds: things with a link, in groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.views.labels import Badge


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing that was found. `effect` is shown instead of `word`, `ident` is an id in full."""

    url: str
    icon: str
    word: str = ""
    effect: Sequence[Any] = ()
    detail: str = ""
    ident: str = ""
    badge: Badge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What was found of one sort; `more_url` leads to the list that has all of it."""

    title: str
    hits: Sequence[Hit]
    more_url: str = ""
