"""Fields that Django lacks."""

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class RowKeyField(models.BigIntegerField):  # type: ignore[type-arg]
    """A primary key that is given, and not counted up: on SQLite the number of the row itself.

    As `bigint` it stands in an index beside the table, and each insert writes both.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """The type of the column; SQLite takes this word alone for a row's own number."""
        return "integer" if connection.vendor == "sqlite" else super().db_type(connection)
