"""Indexes of our tables, as the database has them: each costs something at every insert."""

import pytest
from django.apps import apps
from django.db import connection

OWN = ("audit", "escalations", "runtime")
# Table, index and column of every index over all rows; an expression has no name, or another one.
COLUMNS = {
    "sqlite": """
        SELECT tables.name, indexes.name, columns.name
        FROM sqlite_master tables, pragma_index_list(tables.name) indexes,
        pragma_index_xinfo(indexes.name) columns
        WHERE tables.type = 'table' AND NOT indexes.partial AND columns.key
        ORDER BY indexes.name, columns.seqno""",
    "postgresql": """
        SELECT tables.relname, indexes.relname, pg_get_indexdef(indexes.oid, place, true)
        FROM pg_index held JOIN pg_class indexes ON indexes.oid = held.indexrelid
        JOIN pg_class tables ON tables.oid = held.indrelid, generate_series(1, held.indnkeyatts) place
        WHERE held.indpred IS NULL AND tables.relnamespace = 'public'::regnamespace
        ORDER BY indexes.relname, place""",
}

pytestmark = pytest.mark.django_db


def test_no_index_is_the_beginning_of_another() -> None:
    """What a shorter one finds, the longer one finds too."""
    tables: dict[str, dict[str, list[str]]] = {
        model._meta.db_table: {} for label in OWN for model in apps.get_app_config(label).get_models()
    }
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS[connection.vendor])
        for table, index, column in cursor.fetchall():
            if table in tables:
                tables[table].setdefault(index, []).append(column)
    needless = [
        f"{table}: {name} of {columns} is the beginning of {other} of {longer}"
        for table, indexes in tables.items()
        for name, columns in indexes.items()
        for other, longer in indexes.items()
        if None not in columns and len(longer) > len(columns) and longer[: len(columns)] == columns
    ]
    assert tables["audit_ledgerentry"]["entry_by_time"] == ["tenant", "at", "id"]
    assert not needless, "\n".join(sorted(needless))
