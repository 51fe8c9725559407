"""`manage.py place_hold NAME --flow DFID|--subject S --reason TEXT`: keep words from every erasure."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from dir_console.management import holding
from runtime.core import transactions
from runtime.maintenance.services import holds


class Command(BaseCommand):
    """Exit 0 when it is placed; 1 where it is refused."""

    help = "Place a legal hold on a flow or on a subject: while it is live, nothing of these flows is erased."

    def add_arguments(self, parser: ArgumentParser) -> None:
        holding.add_arguments(parser, what="placed")

    def handle(
        self, *, name: str, flow: str | None, subject: str | None, reason: str, **options: Any
    ) -> None:
        dfid, tenant = holding.flow_of(flow), settings.DIR_TENANT
        try:
            answer = holds.place(
                tenant=tenant,
                name=name,
                dfid=dfid,
                subject=subject or "",
                reason=reason,
                actor=actors.SYSTEM,
            )
        except transactions.BusyError as error:
            raise CommandError(holding.BUSY) from error
        self.stdout.write(f"placed {holding.done(answer)}")
        if subject and not holds.is_subject_known(tenant=tenant, subject=subject):
            self.stdout.write("no decision record names this subject so far: the hold keeps nothing yet")
