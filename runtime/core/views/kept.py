"""What pages write again and again, kept for as long as it cannot be anything else."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from django.urls import get_script_prefix

Given = ParamSpec("Given")
Written = TypeVar("Written")


def kept(most: int) -> Callable[[Callable[Given, Written]], Callable[Given, Written]]:
    """Keep what a function gives for the same values, under each place where the console is served.

    Only for what hangs on nothing else: no time, no person, no row that may change. At most `most` are kept;
    1 and True, which are equal, are other values.
    """

    def keep(write: Callable[Given, Written]) -> Callable[Given, Written]:
        @lru_cache(maxsize=most, typed=True)
        def written(_place: str, *args: Given.args, **given: Given.kwargs) -> Written:
            return write(*args, **given)

        @wraps(write)
        def get(*args: Given.args, **given: Given.kwargs) -> Written:
            # What is not hashable raises TypeError there.
            return written(get_script_prefix(), *args, **given)  # type: ignore[arg-type]

        return get

    return keep
