"""`manage.py erase_payload COMMITMENT --reason TEXT`: erase a text that is stored outside the hash chain."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.maintenance.services import payloads

LONGEST_REASON = 500


class Command(BaseCommand):
    """Exit 0 when it is erased now; 1 where nothing is stored under the commitment, or it is on hold."""

    help = (
        "Erase a text that the ledger keeps under a commitment: parameters, a receipt, a step's summary, "
        "a note. The hash chain stays intact. The rows of proposals and outcomes are not changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("commitment", help="as shown in an entry: 64 hexadecimal digits")
        parser.add_argument("--reason", required=True, help="the reason; it is kept in the ledger")

    def handle(self, *, commitment: str, reason: str, **options: Any) -> None:
        said = reason.strip()
        if not 0 < len(said) <= LONGEST_REASON or "\x00" in said:
            raise CommandError(f"Give a reason of at most {LONGEST_REASON} characters.")
        try:
            erased = payloads.erase(
                tenant=settings.DIR_TENANT, commitment=commitment, reason=said, actor=actors.SYSTEM
            )
        except transactions.BusyError as error:
            raise CommandError("The database is busy; nothing was erased. Run the command again.") from error
        if isinstance(erased, Problem):
            raise CommandError(f"Nothing was erased. {erased.detail}")
        if not erased:
            raise CommandError("No payload is stored under this commitment, or it was already erased.")
        self.stdout.write("erased")
