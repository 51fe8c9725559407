"""Database expressions that Django lacks."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, Func
from django.db.models.sql.compiler import SQLCompiler


class CurrentTransactionId(Func):
    """The writing transaction's id on PostgreSQL, NULL on SQLite, which has one writer.

    A sealer must read in the order (xact, id) below pg_snapshot_xmin: ordering by id alone misses rows
    whose transaction commits late.
    """

    template = "NULL"
    arity = 0
    output_field = BigIntegerField(null=True)

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any
    ) -> tuple[str, list[Any]]:
        sql, params = self.as_sql(compiler, connection, template="pg_current_xact_id()::text::bigint")
        return sql, list(params)
