"""`manage.py target_check [NAME ...]`: check that targets can be called. Connects, and sends nothing."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.execution.services import connectivity


class Command(BaseCommand):
    """Exit 0 when every target that was asked for is good."""

    help = "Check for each target that its address is allowed and reachable and its secret is set."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="targets to check (default: all)")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = settings.DIR_TENANT
        names: list[str] = options["names"] or connectivity.list_targets(tenant=tenant)
        bad = []
        for name in names:
            found = connectivity.check_target(tenant=tenant, name=name, actor=actors.SYSTEM)
            if found is None:
                bad.append(name)
                self.stdout.write(f"{name}: no target has this name")
                continue
            if not found.is_good:
                bad.append(name)
            for words in found.findings:
                self.stdout.write(f"{name}: {words}")
        if bad:
            raise CommandError(f"failed: {', '.join(bad)}")
