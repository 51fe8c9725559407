"""Fields that Django lacks."""

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class RowKeyField(models.BigIntegerField):  # type: ignore[type-arg]
    """A primary key whose value is given; on SQLite it is the number of the row itself (its rowid).

    As `bigint` SQLite would keep it in an index beside the table, and each insert would write both.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """The type of the column; SQLite takes this word alone for a row's own number."""
        return "integer" if connection.vendor == "sqlite" else super().db_type(connection)
