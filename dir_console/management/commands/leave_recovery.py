"""`leave_recovery`: show what a restored backup is missing; an admin ends recovery by a signed statement."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from audit.access.permissions import actor_of, may
from audit.access.roles import Permission
from dir_console.management import passwords
from runtime.contracts.problem import Problem
from runtime.contracts.states import IntentState
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import epochs
from runtime.flows.models import Intent
from runtime.maintenance.services import restores


class Command(BaseCommand):
    help = "Show what a restored backup is missing. With NAME: start a new epoch as that admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the admin who starts the new epoch")
        parser.add_argument(
            "--reason", default="", help="the reason, in one sentence; it is kept in the ledger"
        )
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the admin's password from stdin"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        epoch = current_epoch.in_force()
        if epoch.restored_at is None:
            raise CommandError("The database is not in recovery: there is nothing to leave.")
        in_doubt = Intent.objects.filter(state=IntentState.IN_DOUBT).count()
        self.stderr.write(
            f"In recovery since {epoch.restored_at:%Y-%m-%d %H:%M} UTC. {epochs.describe_missing()} What was "
            "recorded since the backup was made is lost, and what was executed in that time is unknown. "
            f"{in_doubt} intent(s) are in doubt."
        )
        if not options["name"]:
            self.stderr.write("To continue: manage.py leave_recovery NAME --reason TEXT --password-stdin")
            return
        if not options["reason"].strip() or not options["password_stdin"]:
            raise CommandError("Give --reason TEXT and --password-stdin: this is signed in your name.")
        user = get_user_model().objects.filter(username=options["name"], is_active=True).first()
        if (
            user is None
            or not user.check_password(passwords.from_stdin())
            or not may(user, Permission.END_RECOVERY)
        ):
            raise CommandError("No active admin has this name and password.")
        begun = restores.begin_next(
            tenant=settings.DIR_TENANT, actor=actor_of(user), reason=options["reason"].strip()[:500]
        )
        if isinstance(begun, Problem):
            raise CommandError(begun.detail)
        self.stderr.write(
            f"Epoch {begun.number} has started. All sessions have ended: sign in again; agents "
            "must open new sessions."
        )
