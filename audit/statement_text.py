"""The text of statements that are compiled once: what of it never changes, and the cursors that send it."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

# A percent sign of the text itself, or the place of a parameter.
_PERCENT: Final = re.compile("%%|%s")


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


def cursor(database: BaseDatabaseWrapper) -> Any:
    """A cursor for a statement that comes again and again: PostgreSQL plans it once for each connection.

    Django's own cursor there writes the values into the text, so that each text is new to the database; that
    for SQLite rewrites the text at each call. While statements are logged they are used all the same: of a
    prepared one the log would have no text.
    """
    if database.queries_logged or database.vendor not in {"postgresql", "sqlite"}:
        return database.cursor()
    database.ensure_connection()
    with database.wrap_database_errors:
        if database.vendor == "sqlite":
            own = database.connection.cursor(factory=_KnownText)
        else:
            from django.db.backends.postgresql.base import ServerBindingCursor

            own = ServerBindingCursor(database.connection)  # type: ignore[call-arg]
        return database._prepare_cursor(own)  # type: ignore[attr-defined]


class _KnownText(SQLiteCursorWrapper):
    """Rewrites the places of parameters, which SQLite marks otherwise, once for each text."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        return (
            _marked(query) if param_names is None else super().convert_query(query, param_names=param_names)
        )


@lru_cache(maxsize=1024)
def _marked(query: str) -> str:
    return _PERCENT.sub(lambda found: "?" if found[0] == "%s" else "%", query)
