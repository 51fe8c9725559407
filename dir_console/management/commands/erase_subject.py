"""`manage.py erase_subject SUBJECT --reason TEXT`: erase the words of every flow about a subject."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dir_console.management import erasing
from runtime.maintenance.services import erasure


class Command(BaseCommand):
    """Exit 0 when all are erased, or with --dry-run could be; 1 where one must be kept, or there is none."""

    help = "Erase the words of every flow whose decision records name a subject, all of them or none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("subject", help="as decision records name it, such as order:881")
        erasing.add_arguments(parser)

    def handle(self, *, subject: str, reason: str, dry_run: bool, **options: Any) -> None:
        flows = erasure.list_of_subject(tenant=settings.DIR_TENANT, subject=subject)
        if not flows:
            raise CommandError("No decision record names this subject.")
        for line in erasing.erase(flows, reason=reason, dry_run=dry_run):
            self.stdout.write(line)
