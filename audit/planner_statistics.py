"""What PostgreSQL's planner learns of tables: nothing of bytes that no index holds.

After so many changes a worker of the database samples each table, column by column. Of documents, hashes and
ciphertexts it learns nothing that a query could use. Of a sample of the ledger they take a quarter of the
time, of decision records two thirds, while whoever proposes waits for a core.
"""

from collections.abc import Iterable, Iterator

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def ignore_bytes(tables: Iterable[type[models.Model]], schema_editor: BaseDatabaseSchemaEditor) -> None:
    """For a migration: take no statistics of these models' bytes from now on. Of SQLite none are taken."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for model in tables:
        for column in columns_of_bytes(model):
            table, name = map(schema_editor.quote_name, (model._meta.db_table, column))
            schema_editor.execute(f"ALTER TABLE {table} ALTER COLUMN {name} SET STATISTICS 0")


def columns_of_bytes(model: type[models.Model]) -> Iterator[str]:
    """The columns that hold bytes and stand in no index of the model."""
    indexed = {name for index in model._meta.indexes for name, _ in index.fields_orders}
    for constraint in model._meta.constraints:
        indexed.update(getattr(constraint, "fields", ()))
    for field in model._meta.local_fields:
        if isinstance(field, models.BinaryField) and not (field.unique or field.name in indexed):
            yield str(field.column)
