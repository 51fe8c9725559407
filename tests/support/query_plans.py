"""How a database would answer a statement: by which index, and whether it sorts."""

from django.db import connection, transaction

_OTHER_INDEXES = """
SELECT indexes.relname FROM pg_class indexes
JOIN pg_index held ON held.indexrelid = indexes.oid
JOIN pg_class tables ON tables.oid = held.indrelid
WHERE tables.relname LIKE ANY (ARRAY['audit_%%', 'runtime_%%']) AND indexes.relname <> %s
AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexes.oid)
"""


def plan_of(sql: str, index: str) -> str:
    """The plan of a statement. PostgreSQL takes any index where tables are small, so it has no other here."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(_OTHER_INDEXES, [index])
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP INDEX "{name}"')
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
        transaction.set_rollback(True)
    return plan
