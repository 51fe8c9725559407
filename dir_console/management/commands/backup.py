"""backup: copy the SQLite database to one file while the console runs."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection


class Command(BaseCommand):
    """One read of one state: writers go on meanwhile, and the copy holds all of a transaction or nothing."""

    help = (
        "Copy the SQLite database to FILE, which must not exist yet, beside a running console. Keys are not "
        "in it: keep copies of secret_key, signing_key and payload_key elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="the new file, best on another disk")

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.vendor != "sqlite":
            raise CommandError(
                "The database is PostgreSQL: use pg_dump. See Backup and restore in docs/operations.md."
            )
        target: Path = options["file"].absolute()
        if target.exists():
            raise CommandError(f"{target} exists. A backup is never overwritten: choose another name.")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            # Readable by its owner only, as the database is: it holds sessions and hashes of passwords.
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            said = self._copy(draft)
            os.link(draft, target)
        except (OSError, sqlite3.Error) as error:
            raise CommandError(f"{target} was not written: {error}") from error
        finally:
            draft.unlink(missing_ok=True)
        self.stderr.write(f"{target}: {said}", style_func=str)
        self.stderr.write(f"The keys in {settings.DATA_DIR} are not in it.", style_func=str)

    def _copy(self, draft: Path) -> str:
        """Copy, check and sync; what the copy holds, in a sentence."""
        connection.ensure_connection()
        with closing(sqlite3.connect(draft)) as copy:
            connection.connection.backup(copy)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode=DELETE")
            found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise CommandError(f"The copy is damaged, and so may the database be: {found}")
            entries = copy.execute("SELECT count(*) FROM audit_ledgerentry").fetchone()[0]
            newest = copy.execute("SELECT size, at FROM audit_checkpoint ORDER BY id DESC LIMIT 1").fetchone()
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        sealed = (
            "no checkpoint yet" if newest is None else f"checkpoint over {newest[0]}, signed {newest[1]} UTC"
        )
        return f"{draft.stat().st_size} bytes, {entries} entries, {sealed}."
