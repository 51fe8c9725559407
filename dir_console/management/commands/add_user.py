"""`add_user NAME --role operator --password-stdin`: add a user who may sign in."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from audit.access.roles import Role
from dir_console.management import passwords
from runtime.contracts.problem import Problem
from runtime.registry.services import users


class Command(BaseCommand):
    help = "Add a user who can sign in at /accounts/login/."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--role",
            action="append",
            choices=[role.value for role in Role],
            help="repeat the option to give several roles",
        )
        parser.add_argument("--password-stdin", action="store_true", required=True, help="read it from stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        added = users.add(
            tenant=settings.DIR_TENANT,
            name=options["name"],
            password=passwords.from_stdin(),
            roles={Role(role) for role in options["role"] or ()},
            actor=actors.SYSTEM,
        )
        if isinstance(added, Problem):
            raise CommandError(added.detail)
        self.stderr.write(f"{added.get_username()} can now sign in.")
