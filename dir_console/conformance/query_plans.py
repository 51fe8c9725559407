"""How the database would answer a query: by an index over the column that is asked for, or row by row."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

# Of a table with fewer rows PostgreSQL may take any index, or none, and be as fast.
SHORT: Final = 10_000
# What every search names: an index that is asked for nothing else is read from one end to the other.
_OF_ALL: Final = frozenset({"tenant", "name"})
# Values, casts and operators of a condition, of which the names of columns are what is left.
_VALUE: Final = re.compile(r"'(?:[^']|'')*'|::[a-z_]+(?: [a-z]+)*|\b(?:AND|ANY|OR|IS|NOT|NULL)\b")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*")
_FIRST_COLUMNS: Final = """
SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE pg_table_is_visible(c.oid)
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the database says of one query. `conditions` are those that an index answers."""

    scanned: Sequence[str]
    conditions: Sequence[str]

    def is_by(self, column: str) -> bool:
        """Whether an index over the column narrows the search, and nothing is read row by row."""
        asked = [set(_WORD.findall(_VALUE.sub("", condition))) - _OF_ALL for condition in self.conditions]
        return not self.scanned and all(asked) and any(column in names for names in asked)

    def __str__(self) -> str:
        return "; ".join((*self.scanned, *self.conditions)) or "no index"


def plan_of(read: Callable[[], object]) -> Plan:
    """The plan of the first query that `read` makes."""
    captured: list[tuple[str, Sequence[Any]]] = []

    def keep(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        captured.append((sql, params or ()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(keep):
        read()
    sql, params = captured[0]
    return _of_sqlite(sql, params) if connection.vendor == "sqlite" else _of_postgresql(sql, params)


def has_index(table: str, column: str) -> bool:
    """Whether a short table has an index that begins with the column, behind what every search names."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT {SHORT}) AS found")  # noqa: S608
        if connection.vendor == "sqlite" or cursor.fetchone()[0] == SHORT:
            return False
        constraints = connection.introspection.get_constraints(cursor, table).values()
    return any(
        [name for name in found["columns"] if name not in _OF_ALL][:1] == [column]
        for found in constraints
        if found["index"] or found["unique"]
    )


def _of_sqlite(sql: str, params: Sequence[Any]) -> Plan:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        lines = [str(row[-1]) for row in cursor.fetchall()]
    scanned = [line for line in lines if line.startswith("SCAN ")]
    # SEARCH table USING INDEX its_name (tenant=? AND column>?)
    return Plan(scanned, [line[line.find("(") :] for line in lines if line.startswith("SEARCH ")])


def _of_postgresql(sql: str, params: Sequence[Any]) -> Plan:
    """As for a long table: of a short one it reads all rows whatever indexes there are."""
    inside: AbstractContextManager[Any] = (
        nullcontext() if connection.in_atomic_block else transaction.atomic()
    )
    with inside, connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        answer = cursor.fetchone()[0]
        cursor.execute("SET LOCAL enable_seqscan = on")
        cursor.execute(_FIRST_COLUMNS)
        first = dict(cursor.fetchall())
    nodes: list[dict[str, Any]] = [(json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", [])
    # Over an index whose first column is not asked for, PostgreSQL reads all of the index.
    read_whole = [
        node
        for node in nodes
        if node["Node Type"] == "Seq Scan"
        or ("Index Name" in node and first.get(node["Index Name"], "?") not in node.get("Index Cond", ""))
    ]
    scanned = [f"all of {node.get('Index Name') or node.get('Relation Name')}" for node in read_whole]
    return Plan(scanned, [str(node["Index Cond"]) for node in nodes if "Index Cond" in node])
