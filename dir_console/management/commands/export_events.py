"""export_events: sealed entries as events, in one file or on the standard output."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime.contracts.receiver import LINES, EventFormat
from runtime.outward.queries import sealed
from runtime.outward.queries.sealed import NotAsSealedError
from runtime.outward.services import delivery

_AT_ONCE: Final = 500


class Command(BaseCommand):
    """Exit 0 when everything is written; 1 for a wrong range, a file that exists, and a changed entry."""

    help = "Write sealed entries of the ledger as CloudEvents, OCSF or CSV, by the leaves of its tree."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", required=True, choices=[form.lower() for form in LINES])
        parser.add_argument(
            "--from", dest="first", type=int, default=0, help="the first leaf; 0 if not given"
        )
        parser.add_argument("--to", dest="last", type=int, help="the last leaf; the newest if not given")
        parser.add_argument("--out", type=Path, help="the file to write, which must not exist yet")

    def handle(self, *, format: str, first: int, last: int | None, out: Path | None, **options: Any) -> None:
        size = sealed.size()
        end = size - 1 if last is None else last
        if first < 0 or end >= size or (last is not None and first > end):
            raise CommandError(f"The leaves go from 0 to {size - 1}; nothing was written.")
        form = EventFormat(format.upper())
        if out is None:
            # Bytes: CSV ends its lines by itself.
            written = _write(getattr(self.stdout, "buffer", sys.stdout.buffer), form, first, end)
            self.stderr.write(f"{written} events")
            return
        try:
            with out.open("xb") as file:
                written = _write(file, form, first, end)
        except FileExistsError as error:
            raise CommandError(f"{out} exists already; nothing was written.") from error
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error.strerror}.") from error
        self.stdout.write(f"{out}: {written} events")


def _write(file: IO[bytes], form: EventFormat, first: int, end: int) -> int:
    file.write(delivery.head(form))
    written = 0
    try:
        for line in _lines(form, first, end):
            file.write(line)
            written += 1
    except NotAsSealedError as error:
        raise CommandError(f"After {written} events {error}.") from error
    file.flush()
    return written


def _lines(form: EventFormat, first: int, end: int) -> Iterator[bytes]:
    leaf = first
    while leaf <= end:
        most = min(_AT_ONCE, end + 1 - leaf)
        entries, leaf = sealed.list_leaves(tenant=settings.DIR_TENANT, from_leaf=leaf, most=most)
        for entry in entries:
            yield delivery.line(form, entry)
