"""export_ledger: entries and heads as JSON Lines, which `verify_ledger --file` can check."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.verification import verify


class Command(BaseCommand):
    help = "Write the ledger, or one stream of it, as JSON Lines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--stream", help="only this stream: a DFID, agent:<id>, feed:<name> or system")
        parser.add_argument("--out", type=Path, help="file to write (default: standard output)")

    def handle(self, *, stream: str | None = None, out: Path | None = None, **options: Any) -> None:
        lines = verify.export_lines(stream=stream)
        if out is None:
            for line in lines:
                self.stdout.write(line)
            return
        try:
            with out.open("x", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error.strerror}") from error
