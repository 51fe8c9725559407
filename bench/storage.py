"""What one governed action leaves in the database: bytes with all indexes, on PostgreSQL by table."""

import sqlite3
from contextlib import closing
from typing import Final

import psycopg

from bench import action, environment
from bench.environment import Stand
from demo.client import Client

LISTED: Final = 8
_TABLES: Final = """
    SELECT relname, pg_total_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


def run(stand: Stand, actions: int) -> dict[str, float]:
    """Measure on one database, and print bytes for each action."""
    action.load(stand)
    key = environment.manage(stand, "issue_key", action.AGENT)
    with environment.serving(stand, "dir_console.asgi:application") as server:
        client = Client(base_url=server.base_url, agent_id=action.AGENT, key=key)
        for _ in range(20):
            action.act(client, action.one_call)
        before = _sizes(stand)
        for _ in range(actions):
            action.act(client, action.one_call)
        after = _sizes(stand)
        client.wire.close()
    grown = {name: (size - before.get(name, 0)) / actions for name, size in after.items()}
    total = sum(grown.values())
    print(f"{stand.name:<12}{'an action in one call':<36}{total:>12,.0f}")
    if len(grown) > 1:
        for name, size in sorted(grown.items(), key=lambda item: -item[1])[:LISTED]:
            print(f"{stand.name:<12}{f'  {name}':<36}{size:>12,.0f}{size / total:>8.0%}")
    return {f"{stand.name}: bytes of an action": total}


def _sizes(stand: Stand) -> dict[str, int]:
    """Bytes by table; on SQLite of the whole file, once the log is folded into it."""
    url = stand.environ.get("DATABASE_URL")
    if url is None:
        with closing(sqlite3.connect(f"{stand.environ['DIR_DATA']}/console.sqlite3")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            ((pages,),) = database.execute("PRAGMA page_count").fetchall()
            ((size,),) = database.execute("PRAGMA page_size").fetchall()
        return {"the file": pages * size}
    with psycopg.connect(url) as connection:
        return dict(connection.execute(_TABLES).fetchall())
