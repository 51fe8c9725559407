"""`manage.py add_incident_rules [--activate]`: the usual rules that open incidents."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.core import transactions
from runtime.incidents.services import incident_rules


class Command(BaseCommand):
    """Safe to repeat: a rule that has a version already stays as it is, also one that is off."""

    help = "Draft the usual rules that open incidents, where they are not there yet."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--activate", action="store_true", help="activate what is added at once")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            added = incident_rules.add_usual(
                tenant=settings.DIR_TENANT, actor=actors.SYSTEM, activates=options["activate"]
            )
        except transactions.BusyError as error:
            raise CommandError("The database is busy; nothing was added. Run the command again.") from error
        self.stdout.write(f"{added} rules added")
