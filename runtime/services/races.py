"""Lost races: a transaction that lost one is run again from its first read, at most three times."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from django.db import IntegrityError, OperationalError, connection, transaction

Result = TypeVar("Result")
TRIES = 3
# PostgreSQL: serialization failure, deadlock. SQLite has no codes; its busy error is told by its words.
RACE_CODES = frozenset({"40001", "40P01"})
BUSY_WORDS = ("database is locked", "database table is locked")


_line = threading.RLock()


class LostRaceError(Exception):
    """Somebody else moved a row between our read and our compare-and-swap."""


class BusyError(Exception):
    """Three tries lost: the caller should repeat the call with the same key."""


def run(work: Callable[[], Result]) -> Result:
    """Run `work` in one transaction; when it loses a race, run it again in a new one.

    Raises `BusyError` after three lost races. `work` must read everything it decides on inside itself.
    """
    lost: Exception | None = None
    for _ in range(TRIES):
        try:
            with _turn(), transaction.atomic():
                return work()
        except (LostRaceError, IntegrityError) as error:
            lost = error
        except OperationalError as error:
            if not _is_race(error):
                raise
            lost = error
    # The cause tells a lost race from a row that can never be written.
    raise BusyError from lost


def _turn() -> AbstractContextManager[object]:
    """SQLite has one writer: waiting in line is fair, while its busy handler sleeps and lets others pass.

    Other processes still meet in the file's own lock. PostgreSQL locks rows, so nobody waits here.
    """
    return _line if connection.vendor == "sqlite" else nullcontext()


def _is_race(error: OperationalError) -> bool:
    code = getattr(error.__cause__, "sqlstate", None)
    return code in RACE_CODES or any(words in str(error) for words in BUSY_WORDS)
