"""A copy of the SQLite database, made while others write: whole, private, and never over another file."""

import sqlite3
import threading
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from audit.models import LedgerEntry
from tests.support import witness_places
from tests.support.witness_places import grow


@pytest.fixture
def sqlite(real_db: str) -> str:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has pg_dump: tests/topology/test_restored_postgres.py")
    return real_db


def backup(target: Path) -> str:
    err = StringIO()
    call_command("backup", str(target), stderr=err)
    return err.getvalue()


def rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute(sql).fetchall()


def test_the_copy_holds_everything_in_one_private_file(sqlite: str, tmp_path: Path) -> None:
    newest = grow(times=3)
    target = tmp_path / "backup.sqlite3"
    said = backup(target)
    assert f"checkpoint over {newest.checkpoint.size}" in said
    assert "keys" in said
    assert target.stat().st_mode & 0o777 == 0o600
    assert rows(target, "SELECT count(*) FROM audit_ledgerentry") == [(LedgerEntry.objects.count(),)]
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == ["backup.sqlite3"]


def test_nothing_is_overwritten(sqlite: str, tmp_path: Path) -> None:
    target = tmp_path / "backup.sqlite3"
    target.write_text("of yesterday")
    with pytest.raises(CommandError, match="never overwritten"):
        backup(target)
    assert target.read_text() == "of yesterday"


def test_a_place_that_cannot_be_written_is_named(sqlite: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="was not written"):
        backup(tmp_path / "nowhere" / "backup.sqlite3")


def test_writers_go_on_and_each_transaction_is_in_it_whole(sqlite: str, tmp_path: Path) -> None:
    stopping = threading.Event()

    def write() -> None:
        try:
            while not stopping.is_set():
                grow(times=2)
        finally:
            connection.close()

    grow()
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        for number in range(5):
            target = tmp_path / f"{number}.sqlite3"
            backup(target)
            heads = rows(target, "SELECT tenant, stream, seq, hash FROM audit_streamhead")
            last = rows(
                target,
                "SELECT tenant, stream, seq, hash FROM audit_ledgerentry entry WHERE seq = "
                "(SELECT max(seq) FROM audit_ledgerentry other WHERE other.stream = entry.stream)",
            )
            assert sorted(heads) == sorted(last)
            (sealed,) = rows(target, "SELECT count(*) FROM audit_leaf")
            (waiting,) = rows(target, "SELECT count(*) FROM audit_unsealedentry")
            (entries,) = rows(target, "SELECT count(*) FROM audit_ledgerentry")
            assert sealed[0] + waiting[0] == entries[0]
    finally:
        stopping.set()
        writer.join(60)
    assert witness_places.grow().checkpoint.size == LedgerEntry.objects.count()


@pytest.mark.django_db
def test_on_postgresql_the_command_says_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "postgresql")
    with pytest.raises(CommandError, match="pg_dump"):
        backup(tmp_path / "backup.sqlite3")
