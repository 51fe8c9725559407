"""Addresses of pages, kept once they were written: a page has fifty, and each goes through all patterns."""

from functools import lru_cache
from typing import Any

from django.urls import get_script_prefix, reverse

MOST_ADDRESSES = 4096


def of_page(name: str, *args: Any, **kwargs: Any) -> str:
    """The address of the page with this name, as `reverse` writes it.

    Raises `NoReverseMatch`.
    """
    return _written(get_script_prefix(), name, *args, **kwargs)


@lru_cache(maxsize=MOST_ADDRESSES, typed=True)
def _written(prefix: str, name: str, *args: Any, **kwargs: Any) -> str:
    """An address under the place where the console is served (`prefix`).

    `typed`: 1 and True are equal, and stand in an address as other texts.
    """
    return reverse(name, args=args, kwargs=kwargs)
