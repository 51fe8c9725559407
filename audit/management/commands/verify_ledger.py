"""verify_ledger: check every entry, chain, head and payload; exit 1 names the first bad entry."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit import verification
from audit.chain import Break


class Command(BaseCommand):
    help = "Check the ledger of this database, or an export of one. Exit 0 means whole."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, help="check this export instead of the database")

    def handle(self, *, file: Path | None = None, **options: Any) -> None:
        result = verification.verify_database() if file is None else _verify_file(file)
        if isinstance(result, Break):
            raise CommandError(
                f"The first bad entry: tenant {result.tenant}, stream {result.stream}, seq {result.seq}: "
                f"{result.fault}, {result.detail}."
            )
        self.stdout.write(
            f"The ledger is whole: {result.entries} entries in {result.streams} streams, "
            f"{result.heads} heads and {result.payloads} payloads checked."
        )


def _verify_file(path: Path) -> verification.Whole | Break:
    try:
        with path.open(encoding="utf-8") as lines:
            return verification.verify_export(lines)
    except (OSError, UnicodeDecodeError, verification.ExportError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
