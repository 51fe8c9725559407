"""Keyset paging: a page is cut by the last key shown, never by a count or an offset."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from django.http import QueryDict

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """The rows of one page and whether another follows."""

    rows: Sequence[Row]
    more: bool


@dataclass(frozen=True, slots=True)
class Pager:
    """Links under a list."""

    shown: int
    order: str
    first_url: str
    next_url: str


def cut(rows: Sequence[Row], size: int) -> Page[Row]:
    """The page out of `size + 1` rows read."""
    return Page(rows=rows[:size], more=len(rows) > size)


def pager(*, page: Page[Row], query: QueryDict, key: str, last: str, order: str) -> Pager:
    """Links that keep every filter of the address and move the cursor `key` to `last`."""
    kept = [(name, value) for name, values in query.lists() if name != key for value in values if value]
    first = "?" + urlencode(kept) if key in query else ""
    following = "?" + urlencode([*kept, (key, last)]) if page.more else ""
    return Pager(shown=len(page.rows), order=order, first_url=first, next_url=following)
