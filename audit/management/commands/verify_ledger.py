"""verify_ledger: every chain, head, payload, digest and signature; exit 1 names the first bad entry."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.chain import ChainBreak
from audit.sealing import keys, notes
from audit.verification import findings, verify

MOST_PROCESSES = 64


class Command(BaseCommand):
    help = (
        "Verify the ledger of this database and every row it covers, or an export. Exit code 0 means intact."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, help="verify this export instead of the database")
        parser.add_argument(
            "--from",
            "--since",
            dest="checkpoint",
            type=Path,
            help="a checkpoint that was kept elsewhere (manage.py checkpoint prints one): the ledger must "
            "begin with what it was signed over",
        )
        parser.add_argument(
            "--processes",
            type=int,
            default=1,
            metavar="N",
            help="walk over the streams in this many processes (default 1); the findings are the same",
        )
        parser.add_argument("--json", action="store_true", help="print the whole result as JSON")

    def handle(self, *, file: Path | None = None, checkpoint: Path | None = None, **options: Any) -> None:
        if file is not None and checkpoint is not None:
            raise CommandError("An export holds no tree: use --from without --file.")
        if file is not None:
            self._file(file)
            return
        processes = options.get("processes", 1)
        if not 1 <= processes <= MOST_PROCESSES:
            raise CommandError(f"--processes takes a number from 1 to {MOST_PROCESSES}.")
        result = findings.verify_all(
            given=None if checkpoint is None else _read_checkpoint(checkpoint), processes=processes
        )
        if options.get("json"):
            answer = {
                "whole": not result.findings,
                **asdict(result),
                "findings": [asdict(item) for item in result.findings],
                "public_keys": keys.public_keys(tenant=settings.DIR_TENANT),
            }
            self.stdout.write(json.dumps(answer, ensure_ascii=False))
        elif not result.findings:
            self.stdout.write(
                f"The ledger is intact: {result.entries} entries in {result.streams} streams, "
                f"{result.heads} heads and {result.payloads} payloads checked, and every row they cover. "
                f"The tree has {result.leaves} leaves and {result.checkpoints} checkpoints."
            )
        for words in result.not_verified:
            self.stderr.write(f"Not verified: {words}.")
        for item in result.findings[1:]:
            self.stderr.write(_words(item))
        if result.more:
            self.stderr.write(f"and {result.more} more.")
        if result.findings:
            raise CommandError(f"The first bad entry: {_words(result.findings[0])}")

    def _file(self, path: Path) -> None:
        try:
            with path.open(encoding="utf-8") as lines:
                result = verify.verify_export(lines)
        except (OSError, UnicodeDecodeError, verify.ExportError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from error
        if isinstance(result, ChainBreak):
            raise CommandError(f"The first bad entry: {_words(result)}")
        self.stdout.write(
            f"The export is intact: {result.entries} entries in {result.streams} streams, {result.heads} "
            "heads checked. It contains no rows."
        )


def _read_checkpoint(path: Path) -> notes.Signed:
    try:
        return notes.read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    except notes.NoteError as error:
        raise CommandError(f"{path} is not a checkpoint: {error}.") from error


def _words(found: ChainBreak) -> str:
    return f"tenant {found.tenant}, stream {found.stream}, seq {found.seq}: {found.fault}, {found.detail}."
