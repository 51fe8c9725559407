"""Lost races: a transaction that lost one is run again from its first read, at most three times."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Final, ParamSpec, TypeVar

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction

Given = ParamSpec("Given")
Result = TypeVar("Result")
TRIES = 3
# PostgreSQL: serialization failure, deadlock. SQLite has no codes; its errors are recognised by their text.
RACE_CODES = frozenset({"40001", "40P01"})
RACE_WORDS = "database table is locked"
# SQLite has waited for as long as the settings let it: another process has the file, and will have it longer.
LOCKED_WORDS = "database is locked"
# How long a writer waits while another process has the file; then the caller gets an error.
PATIENCE_S: Final = 5.0
_LOOK_S: Final = 0.2

_sqlite_writer_lock = threading.RLock()
_file_is_locked = threading.Event()
_log = logging.getLogger(__name__)


# PostgreSQL: a statement took too long, or a transaction stood still for too long (`dir_console.env`).
ENDED_CODES: Final = frozenset({"57014", "25P03"})
_ended = itertools.count()
_ended_so_far = 0


def ended_count() -> int:
    """How many transactions of this process the database has ended because they took too long."""
    return _ended_so_far


def note_ended(error: BaseException) -> None:
    """Count a transaction that the database has ended because it took too long, and say so in the log."""
    global _ended_so_far  # one number of the process, as its metric is
    code = getattr(error.__cause__, "sqlstate", None)
    if code in ENDED_CODES:
        _ended_so_far = next(_ended) + 1
        _log.error("the database has ended a transaction that took too long: %s", error)


class ConcurrentUpdateError(Exception):
    """A concurrent update moved a row between our read and our compare-and-swap."""


class BusyError(Exception):
    """Three tries lost: the caller should repeat the call with the same key."""


def retry_on_conflict(work: Callable[[], Result]) -> Result:
    """Run `work` in one transaction; when it loses a race, run it again in a new one.

    Raises `BusyError` after three lost races, and the database's own error at once where another process
    keeps it locked. `work` must read everything it decides on inside itself.
    """
    lost: Exception | None = None
    for _ in range(TRIES):
        try:
            with sqlite_writer_turn(), transaction.atomic():
                return work()
        except (ConcurrentUpdateError, IntegrityError) as error:
            lost = error
        except (DatabaseError, InterfaceError) as error:
            note_ended(error)
            code = getattr(error.__cause__, "sqlstate", None)
            if code not in RACE_CODES and RACE_WORDS not in str(error):
                raise
            lost = error
    # The cause tells a lost race from a row that can never be written.
    raise BusyError from lost


def try_once(work: Callable[[], Result], *, wait_ms: int) -> Result:
    """Run `work` in one transaction, once; it fails where it would wait longer than `wait_ms` for a row.

    For what can be left undone: whatever it raises, nothing has happened. On SQLite it has its turn as the
    only writer, and waits for no row.
    """
    with sqlite_writer_turn(), transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{wait_ms}ms"])
        return work()


def run_together(
    works: Sequence[Callable[[], Result]], *, may_stand: Callable[[Result], bool]
) -> list[Result] | None:
    """Run several works, each with transactions of its own, in one commit; None where nothing has happened.

    Nothing has where a work raises, or its result may not stand, or the commit fails: each is to be run again
    alone then, so that none fails by another's fault. What they do `on_commit` is done after the one commit.
    For SQLite, whose commit takes as long as a third of an action, and writes a page once however many
    changed it.
    """
    committed: list[bool] = []
    results: list[Result] = []
    try:
        with sqlite_writer_turn(), transaction.atomic(durable=True):
            transaction.on_commit(lambda: committed.append(True))
            for work in works:
                results.append(work())
                if connection.needs_rollback or not may_stand(results[-1]):
                    transaction.set_rollback(True)
                    break
    except Exception:
        if committed:  # what follows a commit is hints alone, which whoever waits for them does without
            _log.exception("%s requests were stored in one commit, but what follows it failed", len(works))
        else:
            _log.exception("%s requests could not be stored in one commit; each is tried alone", len(works))
    return results if committed else None


def retried(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let every call of `work` run as `retry_on_conflict` runs it."""

    @wraps(work)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return retry_on_conflict(partial(work, *args, **kwargs))

    return run


def give_back_connection() -> None:
    """Between two uses: a slow target must not keep a connection of the pool, or it runs dry for others.

    SQLite has no pool, and whoever closes its last connection folds the whole log back into the file, which
    takes longer than an attempt: there a thread keeps its connection.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()


@contextmanager
def sqlite_writer_turn() -> Iterator[None]:
    """SQLite has one writer: waiting in line is fair, while its busy handler sleeps and lets others pass.

    Other processes meet in the file's own lock; while one of them keeps it, no one waits for long.
    PostgreSQL locks rows, so no one waits here.
    """
    if connection.vendor != "sqlite":
        yield
        return
    gives_up_at = time.monotonic() + PATIENCE_S
    while not _sqlite_writer_lock.acquire(timeout=_LOOK_S):
        if _file_is_locked.is_set() and time.monotonic() >= gives_up_at:
            raise OperationalError(f"{LOCKED_WORDS} by another process")
    try:
        yield
        _file_is_locked.clear()
    except OperationalError as error:
        if LOCKED_WORDS in str(error):
            _file_is_locked.set()
        raise
    finally:
        _sqlite_writer_lock.release()
