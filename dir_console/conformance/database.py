"""What the database keeps of the models' constraints, compared with what the models state.

A name proves nothing, so definitions are compared too: on SQLite to the letter, and on PostgreSQL, which
writes them its own way, by the columns and the values that they name.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from django.apps import apps
from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import CheckConstraint, ForeignKey, Model, UniqueConstraint

_APPS: Final = ("audit", "runtime", "escalations")
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'")
_CAST: Final = re.compile(r"::[a-z_]+(?: [a-z]+)*(?:\[\])?")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")
_QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {
        "definitions": """
            SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index')
        """,
        "columns": """
            SELECT t.name, c.name, c."notnull" OR c.pk FROM sqlite_master t, pragma_table_info(t.name) c
            WHERE t.type = 'table'
        """,
        # A key of one integer column has no index.
        "unique": """
            SELECT t.name, i.name, c.name FROM sqlite_master t, pragma_index_list(t.name) i,
            pragma_index_info(i.name) c WHERE t.type = 'table' AND i."unique" AND NOT i.partial
            UNION SELECT t.name, 'primary key', c.name FROM sqlite_master t, pragma_table_info(t.name) c
            WHERE t.type = 'table' AND c.pk
        """,
        "references": """
            SELECT t.name, f."from", f."table", f."to" FROM sqlite_master t, pragma_foreign_key_list(t.name) f
            WHERE t.type = 'table'
        """,
    },
    "postgresql": {
        "definitions": """
            SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE convalidated
            UNION ALL SELECT indexname, indexdef FROM pg_indexes
            WHERE schemaname = ANY (current_schemas(false))
        """,
        "columns": """
            SELECT t.relname, a.attname, a.attnotnull FROM pg_attribute a
            JOIN pg_class t ON t.oid = a.attrelid
            WHERE t.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND pg_table_is_visible(t.oid)
        """,
        "unique": """
            SELECT t.relname, i.indexrelid::text, a.attname FROM pg_index i
            JOIN pg_class t ON t.oid = i.indrelid
            JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey)
            WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL AND pg_table_is_visible(t.oid)
        """,
        "references": """
            SELECT t.relname, a.attname, o.relname, b.attname FROM pg_constraint c
            JOIN pg_class t ON t.oid = c.conrelid JOIN pg_class o ON o.oid = c.confrelid
            JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]
            JOIN pg_attribute b ON b.attrelid = o.oid AND b.attnum = c.confkey[1]
            WHERE c.contype = 'f' AND c.convalidated AND pg_table_is_visible(t.oid)
        """,
    },
}


@dataclass(frozen=True, slots=True)
class Compared:
    """How many of each were compared, and what differs."""

    tables: int
    counts: Mapping[str, int]
    wrong: list[str]


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """What the database says of all its tables."""

    definitions: Mapping[str, str]
    # Whether a column must have a value, by table and column.
    columns: Mapping[tuple[str, str], bool]
    unique: Set[tuple[str, frozenset[str]]]
    references: Set[tuple[str, str, str, str]]


def compare() -> Compared:
    """Compare every check, unique constraint, foreign key and NOT NULL of the product's tables."""
    stored, counts = _read(), Counter[str]()
    models = [model for model in apps.get_models() if model._meta.app_label in _APPS]
    wrong = list[str]()
    for model in models:
        wrong += _of_names(model, stored, counts)
        wrong += _of_fields(model, stored, counts)
    return Compared(tables=len(models), counts=counts, wrong=wrong)


def _read() -> _Catalogue:
    queries = _QUERIES[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(queries["definitions"])
        definitions: dict[str, str] = dict(cursor.fetchall())
        cursor.execute(queries["columns"])
        columns = {(table, column): bool(filled) for table, column, filled in cursor.fetchall()}
        cursor.execute(queries["unique"])
        indexes: dict[tuple[str, str], set[str]] = {}
        for table, index, column in cursor.fetchall():
            indexes.setdefault((table, index), set()).add(column)
        cursor.execute(queries["references"])
        references = {tuple(row) for row in cursor.fetchall()}
    unique = {(table, frozenset(found)) for (table, _), found in indexes.items()}
    return _Catalogue(definitions, columns, unique, references)


def _of_names(model: type[Model], stored: _Catalogue, counts: Counter[str]) -> Iterator[str]:
    """Checks and unique constraints, which have names."""
    table = model._meta.db_table
    for constraint in model._meta.constraints:
        if not isinstance(constraint, CheckConstraint | UniqueConstraint):
            continue
        is_check = isinstance(constraint, CheckConstraint)
        counts["check" if is_check else "unique constraint"] += 1
        # With a condition it is an index of its own; the others stand in the words of SQLite's table.
        is_index = not is_check and constraint.condition is not None
        make = constraint.create_sql if is_index else constraint.constraint_sql
        wanted = str(make(model, _editor()))
        in_table = connection.vendor == "sqlite" and not is_index
        found = stored.definitions.get(table if in_table else constraint.name, "")
        if not found or (in_table and f'"{constraint.name}"' not in found):
            yield f"The constraint {constraint.name} of {table} is missing."
        elif not _says(found, wanted, {str(field.column) for field in model._meta.fields}):
            yield f"The constraint {constraint.name} of {table} is not what the model states."


def _editor() -> BaseDatabaseSchemaEditor:
    """Writes definitions, and is never entered: on SQLite that would switch checks of foreign keys off."""
    editor: BaseDatabaseSchemaEditor = connection.SchemaEditorClass(connection, collect_sql=True)
    editor.deferred_sql = []
    return editor


def _of_fields(model: type[Model], stored: _Catalogue, counts: Counter[str]) -> Iterator[str]:
    """Unique fields, foreign keys and NOT NULL."""
    table = model._meta.db_table
    for field in model._meta.local_fields:
        column = str(field.column)
        if (table, column) not in stored.columns:
            yield f"The column {column} of {table} is missing."
            continue
        if field.unique:
            counts["unique column"] += 1
            if (table, frozenset({column})) not in stored.unique:
                yield f"The column {column} of {table} is not unique."
        if isinstance(field, ForeignKey) and getattr(field, "db_constraint", True):
            counts["foreign key"] += 1
            target = field.target_field
            if (table, column, target.model._meta.db_table, target.column) not in stored.references:
                yield f"The column {column} of {table} refers to nothing."
        if not field.null:
            counts["column that must be filled"] += 1
            if not stored.columns[table, column]:
                yield f"The column {column} of {table} may be empty."


def _says(stored: str, wanted: str, columns: set[str]) -> bool:
    if connection.vendor == "sqlite":
        return _plain(wanted) in _plain(stored)
    return _named(stored, columns) == _named(wanted, columns)


def _plain(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip()


def _named(sql: str, columns: set[str]) -> tuple[set[str], set[str]]:
    """The columns and the quoted values that a definition names; a cast to `text` names no column."""
    words = _CAST.sub("", _QUOTED.sub("''", sql)).lower()
    return set(_WORD.findall(words)) & columns, set(_QUOTED.findall(sql))
