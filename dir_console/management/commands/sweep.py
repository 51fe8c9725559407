"""`manage.py sweep`: run the sweeper once, from a cron job or by hand."""

from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runtime.maintenance.services import sweeper


class Command(BaseCommand):
    """Exit 1 when an item could not be repaired; the log names it."""

    help = (
        "Run the sweeper once: recover crashed attempts, queue due intents, expire "
        "escalations, end idle flows."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        swept = sweeper.sweep()
        for name, count in asdict(swept).items():
            self.stdout.write(f"{name}: {count}")
        if swept.failed:
            raise CommandError(f"{swept.failed} could not be repaired; see the log.")
