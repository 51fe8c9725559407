"""`set_password NAME --password-stdin`: change a user's password and end their sessions."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from dir_console.management import passwords
from runtime.contracts.problem import Problem
from runtime.registry.services import users


class Command(BaseCommand):
    help = "Change a user's password. Open sessions end."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--password-stdin", action="store_true", required=True, help="read it from stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        changed = users.set_password(
            tenant=settings.DIR_TENANT,
            name=options["name"],
            password=passwords.from_stdin(),
            actor=actors.SYSTEM,
        )
        if isinstance(changed, Problem):
            raise CommandError(changed.detail)
        self.stderr.write(f"The password of {changed.get_username()} has been changed.")
