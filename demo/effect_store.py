"""The broker's book: one SQLite file that keeps each effect once, by idempotency key."""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY, seen INTEGER NOT NULL, repeats INTEGER NOT NULL, conflicts INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    digest TEXT NOT NULL, dfid TEXT, intent_id TEXT, receipt TEXT NOT NULL);
"""


class Filing(Enum):
    """What became of a call: carried out now, carried out before, or refused for its body."""

    DONE = auto()
    REPEATED = auto()
    CONFLICT = auto()


@dataclass(frozen=True)
class Filed:
    """The answer to one call; ``receipt`` is JSON text, empty on a conflict."""

    filing: Filing
    receipt: str


class Book:
    """Thread-safe: one connection behind one lock, one transaction per call."""

    def __init__(self, *, path: Path) -> None:
        # Re-entrant: a receipt is filled in from what the book holds, inside the same transaction.
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def note_call(self, *, key: str) -> None:
        """Count a call that reached the broker but changed nothing there."""
        with self._lock:
            self._count(key)

    def carry_out(
        self, *, path: str, key: str, body: Mapping[str, Any], fill: Callable[[], Mapping[str, Any]]
    ) -> Filed:
        """Store the effect of a new key, or answer the stored receipt of a known one."""
        digest = hashlib.sha256(json.dumps([path, body], sort_keys=True).encode()).hexdigest()
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                known = self._db.execute(
                    "SELECT digest, receipt FROM effects WHERE key = ?", (key,)
                ).fetchone()
                if known is None:
                    filed = Filed(Filing.DONE, json.dumps(fill()))
                    self._count(key)
                    self._db.execute(
                        "INSERT INTO effects (key, path, digest, dfid, intent_id, receipt)"
                        " VALUES (?, ?, ?, ?, ?, ?)",
                        (key, path, digest, body.get("dfid"), body.get("intent_id"), filed.receipt),
                    )
                elif known["digest"] == digest:
                    filed = Filed(Filing.REPEATED, known["receipt"])
                    self._count(key, repeats=1)
                else:
                    filed = Filed(Filing.CONFLICT, "")
                    self._count(key, conflicts=1)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return filed

    def counts(self) -> dict[str, int]:
        """Effects stored, calls seen, distinct keys, duplicates and conflicts refused."""
        with self._lock:
            effects = self._db.execute("SELECT count(*) FROM effects").fetchone()[0]
            calls, keys, repeats, conflicts, most = self._db.execute(
                "SELECT coalesce(sum(seen), 0), count(*), coalesce(sum(repeats), 0),"
                " coalesce(sum(conflicts), 0), coalesce(max(seen), 0) FROM calls"
            ).fetchone()
        return {
            "effects": effects,
            "calls": calls,
            "distinct_keys": keys,
            "duplicates_refused": repeats,
            "conflicts_refused": conflicts,
            "most_calls_of_one_key": most,
        }

    def effect(self, *, key: str) -> dict[str, Any] | None:
        """The stored effect of a key with its receipt, or None: nothing was done under it."""
        rows = self._rows("WHERE effects.key = ?", (key,))
        return rows[0] if rows else None

    def net(self, *, symbol: str) -> float:
        """Shares of a symbol bought less those sold, over all that was done. Inside `fill` too."""
        with self._lock:
            return float(
                self._db.execute(
                    "SELECT coalesce(sum(json_extract(receipt, '$.quantity')"
                    " * CASE json_extract(receipt, '$.action') WHEN 'BUY' THEN 1 ELSE -1 END), 0)"
                    " FROM effects WHERE json_extract(receipt, '$.symbol') = ?"
                    " AND json_extract(receipt, '$.quantity') IS NOT NULL",
                    (symbol,),
                ).fetchone()[0]
            )

    def moved(self, *, account: str) -> int:
        """Cents that came into an account less those that left it. Inside `fill` too."""
        with self._lock:
            return int(
                self._db.execute(
                    "SELECT coalesce(sum(moved.value), 0)"
                    " FROM effects, json_each(receipt, '$.moves') AS moved WHERE moved.key = ?",
                    (account,),
                ).fetchone()[0]
            )

    def effects(self, *, after: int, limit: int) -> list[dict[str, Any]]:
        """Stored effects in the order they were done, past the row ``after``."""
        return self._rows("WHERE effects.id > ? ORDER BY effects.id LIMIT ?", (after, limit))

    def latest(self, *, path: str, limit: int) -> list[dict[str, Any]]:
        """The newest effects of one path, newest first."""
        return self._rows("WHERE path = ? ORDER BY effects.id DESC LIMIT ?", (path, limit))

    def close(self) -> None:
        """Close the file; later calls fail."""
        with self._lock:
            self._db.close()

    def _rows(self, where: str, values: tuple[object, ...]) -> list[dict[str, Any]]:
        sql = (
            "SELECT effects.id, effects.key, path, dfid, intent_id, receipt, coalesce(seen, 0) AS seen"
            " FROM effects LEFT JOIN calls ON calls.key = effects.key "
        )
        with self._lock:
            rows = self._db.execute(sql + where, values).fetchall()
        return [{**dict(row), "receipt": json.loads(row["receipt"])} for row in rows]

    def _count(self, key: str, *, repeats: int = 0, conflicts: int = 0) -> None:
        self._db.execute(
            "INSERT INTO calls (key, seen, repeats, conflicts) VALUES (?, 1, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET seen = seen + 1, repeats = repeats + excluded.repeats,"
            " conflicts = conflicts + excluded.conflicts",
            (key, repeats, conflicts),
        )
