"""A world made once for a file's tests: each test begins in it and takes back what it changed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import pytest
from django.db import transaction

World = TypeVar("World")


def shared(build: Callable[[], World]) -> Any:
    """A fixture with what `build` returns, made inside a transaction around all tests of a file.

    Return ids and plain values, no rows: a row that one test changed would be stale in the next. Not for
    files with tests on a database of their own (`real_db`), which closes the connection.
    """

    @contextmanager
    def built() -> Iterator[World]:
        yield build()

    return opened(built)


def opened(world_of: Callable[[], AbstractContextManager[World]]) -> Any:
    """The same for a world that has something to close after the tests, such as a target that listens."""

    @pytest.fixture(scope="module")
    def world(migrated: None, django_db_blocker: Any) -> Iterator[World]:
        with django_db_blocker.unblock(), transaction.atomic(), world_of() as made:
            yield made
            transaction.set_rollback(True)

    return world
