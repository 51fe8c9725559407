"""`manage.py release_hold NAME --flow DFID|--subject S --reason TEXT`: let words be erased again."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from dir_console.management import holding
from runtime.core import transactions
from runtime.maintenance.queries import holds as held
from runtime.maintenance.services import holds


class Command(BaseCommand):
    """Exit 0 when it is released; 1 where no live hold has this name and target."""

    help = "Release a legal hold. Another live hold on the same flow or subject still keeps it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        holding.add_arguments(parser, what="released")

    def handle(
        self, *, name: str, flow: str | None, subject: str | None, reason: str, **options: Any
    ) -> None:
        dfid, tenant = holding.flow_of(flow), settings.DIR_TENANT
        live = held.list_named(tenant=tenant, name=name)
        found = [hold for hold in live if hold.flow_id == dfid and hold.subject == (subject or "")]
        if not found:
            raise CommandError(f"No live hold {name} keeps {dfid or subject}.")
        try:
            answer = holds.release(tenant=tenant, hold_id=found[0].pk, reason=reason, actor=actors.SYSTEM)
        except transactions.BusyError as error:
            raise CommandError(holding.BUSY) from error
        self.stdout.write(f"released {holding.done(answer)}")
