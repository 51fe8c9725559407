"""The INSERT of so many rows of a model, compiled once for each form, as `bulk_create` would write it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model
from django.db.models.constants import OnConflict
from django.db.models.expressions import DatabaseDefault

from audit import statement_rows, statement_text

# Forms that are kept: a form more makes room for itself.
_MOST_FORMS: Final = 256


@dataclass(frozen=True, slots=True)
class Insertion:
    """An INSERT of so many rows; its parameters are these columns of each, in order."""

    sql: str
    columns: Sequence[statement_rows.Column]
    returns: "Field[Any, Any] | None"

    def params(self, rows: Sequence[Model], database: BaseDatabaseWrapper) -> list[Any]:
        """What the database is given."""
        return statement_rows.params(self.columns, rows, database)

    def store(self, rows: Sequence[Model], database: BaseDatabaseWrapper) -> None:
        """Insert these rows, and set on them the keys that the database gives."""
        params = self.params(rows, database)
        if self.returns is None:
            statement_text.changed(database, self.sql, params)
        else:
            keys = statement_text.rows(database, self.sql, params)
            for row, (key,) in zip(rows, keys, strict=True):
                setattr(row, self.returns.attname, key)
        for row in rows:
            row._state.adding, row._state.db = False, database.alias


def given(model: type[Model], row: Model) -> tuple[str, ...]:
    """The columns that an insert names: all but those that the database fills."""
    values = row.__dict__
    names, defaults = _named(model, has_key=values.get(model._meta.pk.attname) is not None)
    left = {name for name in defaults if isinstance(values.get(name), DatabaseDefault)}
    return tuple(name for name in names if name not in left) if left else names


@lru_cache(maxsize=_MOST_FORMS)
def _named(model: type[Model], *, has_key: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that can be given, and which of them the database fills where they are not."""
    by_database = None if has_key else model._meta.auto_field
    fields = [
        field for field in model._meta.concrete_fields if not field.generated and field is not by_database
    ]
    defaults = (field.attname for field in fields if field.has_db_default())
    return tuple(field.attname for field in fields), tuple(defaults)


@lru_cache(maxsize=_MOST_FORMS)
def table(model: type[Model]) -> str:
    """The name of the table as statements have it."""
    return connection.ops.quote_name(model._meta.db_table)


@lru_cache(maxsize=_MOST_FORMS)
def insertion(
    vendor: str,
    model: type[Model],
    count: int,
    names: tuple[str, ...],
    on_conflict: OnConflict | None,
    unique_fields: tuple[str, ...],
    update_fields: tuple[str, ...],
    *,
    returning: bool,
) -> Insertion:
    ops, told = connection.ops, model._meta
    fields = [field for field in told.concrete_fields if field.attname in names]
    columns = ", ".join(ops.quote_name(str(field.column)) for field in fields)
    one = f"({', '.join(['%s'] * len(fields))})"
    parts = [
        f"{ops.insert_statement(on_conflict=on_conflict)} {table(model)} ({columns})",
        f"VALUES {', '.join([one] * count)}",
        ops.on_conflict_suffix_sql(
            fields,
            on_conflict,
            [_column(model, name) for name in update_fields],
            [_column(model, name) for name in unique_fields],
        ),
    ]
    is_given = told.pk.attname in names
    returns = told.pk if returning and not is_given and on_conflict is None else None
    if returns is not None:
        parts.append(f"RETURNING {ops.quote_name(str(returns.column))}")
    into = [statement_rows.Column(field, vendor) for field in fields]
    return Insertion(" ".join(part for part in parts if part), into, returns)


def _column(model: type[Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    return str(field.column)
