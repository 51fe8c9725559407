"""`deactivate_user NAME`: lock a user out and end all of their browser sessions at once."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.registry.services import users


class Command(BaseCommand):
    help = "Deactivate a user. The account is kept, because the ledger refers to it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        gone = users.deactivate(tenant=settings.DIR_TENANT, name=options["name"], actor=actors.SYSTEM)
        if isinstance(gone, Problem):
            raise CommandError(gone.detail)
        self.stderr.write(f"{gone.get_username()} is deactivated.")
