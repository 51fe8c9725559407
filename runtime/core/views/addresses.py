"""Addresses of pages, kept once they were written: a page has fifty, and each goes through all patterns."""

from typing import Any

from django.urls import reverse

from runtime.core.views.kept import kept

MOST_ADDRESSES = 4096


@kept(MOST_ADDRESSES)
def of_page(name: str, *args: Any, **kwargs: Any) -> str:
    """The address of the page with this name, as `reverse` writes it.

    Raises `NoReverseMatch`.
    """
    return reverse(name, args=args, kwargs=kwargs)
