"""The text of statements that are compiled once: what of it never changes, and how it is sent."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from operator import attrgetter, methodcaller
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

# What writes the places of parameters as the driver reads them.
_Marked = Callable[[str], str | bytes]
# A percent sign of the text itself, or the place of a parameter.
_PERCENT: Final = re.compile("%%|%s")
# From each double quote to the next, so that one inside a text hides no name behind it.
_NAME: Final = re.compile('(?=("[^"]*"))')


def with_constants(sql: str, params: Sequence[Any]) -> tuple[str, list[Any]]:
    """The statement with texts among its parameters written into it, and the parameters that are left.

    A prepared statement is planned without its parameters. Where a text such as a state is one of them,
    PostgreSQL cannot know that the condition of a partial index holds, and reads what that index leaves out.
    """
    left, following = list[Any](), iter(params)

    def write(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%%"
        param = next(following)
        # No database takes a zero character in a literal; the driver says so of a parameter.
        if not isinstance(param, str) or "\0" in param:
            left.append(param)
            return "%s"
        return "'" + str(param).replace("'", "''").replace("%", "%%") + "'"

    return _PERCENT.sub(write, sql), left


def rows(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> list[Any]:
    """Send a statement that comes again and again; all its rows."""
    return _answer(database, sql, params, methodcaller("fetchall"))  # type: ignore[no-any-return]


def changed(database: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> int:
    """Send a statement that comes again and again and returns no rows; how many it changed or stored."""
    return int(_answer(database, sql, params, attrgetter("rowcount")))


def _answer(
    database: BaseDatabaseWrapper, sql: str, params: Sequence[Any], read: Callable[[Any], Any]
) -> Any:
    """What `read` finds at the cursor. A transaction in which a statement fails can only be rolled back.

    Django's own cursor writes the values into the text on PostgreSQL, so that each text is new to the
    server, and rewrites the text at each call on SQLite. Here the places of the parameters are rewritten
    once for each text, and PostgreSQL plans it once for each connection. While statements are logged
    Django's cursor is used all the same: of a prepared statement the log would have no text.
    """
    try:
        if database.force_debug_cursor or database.vendor not in _DRIVERS:
            with database.cursor() as cursor:
                cursor.execute(sql, params)
                return read(cursor)
        find_cursor, marked = _DRIVERS[database.vendor]
        if database.connection is None:
            database.ensure_connection()
        # Django's cursor also asks whether the connection is of this thread; `connections` gives no other.
        with database.wrap_database_errors:
            cursor = find_cursor(database)
            _send(database, cursor, marked, sql, params)
            return read(cursor)
    except Exception as error:
        if database.in_atomic_block:
            database.needs_rollback = True
            database.rollback_exc = error  # type: ignore[attr-defined]
        raise


def _send(
    database: BaseDatabaseWrapper, cursor: Any, marked: _Marked, sql: str, params: Sequence[Any]
) -> None:
    """Execute a statement through the wrappers that are installed (`connection.execute_wrapper`)."""

    def execute(sql: str, params: Sequence[Any], many: bool, context: Any) -> None:
        database.validate_no_broken_transaction()
        cursor.execute(marked(sql), params)

    send = execute
    for wrapper in reversed(database.execute_wrappers):
        send = partial(wrapper, send)
    send(sql, params, False, {"connection": database, "cursor": cursor})


@lru_cache(maxsize=1024)
def names(sql: str) -> frozenset[str]:
    """What a statement names in double quotes, its tables and columns among it."""
    return frozenset(_NAME.findall(sql))


def _marked_cursor(database: BaseDatabaseWrapper) -> Any:
    return database.connection.cursor()


def _numbered_cursor(database: BaseDatabaseWrapper) -> Any:
    """The cursor of a connection, made once: by then it knows how values of each type are written and read.

    Its results come in binary form: as text, bytes are hexadecimal digits and times are read in Python.
    """
    connection: Any = database.connection
    kept = getattr(connection, _KEPT, None)
    if kept is None:
        kept = database.Database.RawCursor(connection)  # type: ignore[attr-defined]
        kept.format = database.Database.pq.Format.BINARY  # type: ignore[attr-defined]
        setattr(connection, _KEPT, kept)
    return kept


@lru_cache(maxsize=1024)
def _with_marks(sql: str) -> str:
    return _PERCENT.sub(lambda found: "?" if found[0] == "%s" else "%", sql)


@lru_cache(maxsize=1024)
def _with_numbers(sql: str) -> bytes:
    numbers = count(1)
    return _PERCENT.sub(lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", sql).encode()


# Where the cursor of a connection is kept, which ends with it.
_KEPT: Final = "_dir_numbered_cursor"
# By database, with what gives a cursor of the driver.
_DRIVERS: Final[dict[str, tuple[Callable[[BaseDatabaseWrapper], Any], _Marked]]] = {
    "sqlite": (_marked_cursor, _with_marks),
    "postgresql": (_numbered_cursor, _with_numbers),
}
