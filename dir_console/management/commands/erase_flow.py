"""`manage.py erase_flow DFID --reason TEXT`: erase the words of a flow from every table."""

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from dir_console.management import erasing


class Command(BaseCommand):
    """Exit 0 when they are erased, or with --dry-run could be; 1 where the flow is kept, or unknown."""

    help = (
        "Erase the words of a flow that has ended: parameters, contexts, evidence, receipts. Entries, "
        "digests and signatures stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dfid", help="the id of the flow, as its page shows it")
        erasing.add_arguments(parser)

    def handle(self, *, dfid: str, reason: str, dry_run: bool, **options: Any) -> None:
        try:
            flow = UUID(dfid)
        except ValueError as error:
            raise CommandError(f"{dfid} is not the id of a flow.") from error
        if not erasing.is_known(flow):
            raise CommandError(f"There is no flow {flow}.")
        for line in erasing.erase([flow], reason=reason, dry_run=dry_run):
            self.stdout.write(line)
