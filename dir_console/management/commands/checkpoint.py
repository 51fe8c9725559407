"""checkpoint: print the newest signed checkpoint of the ledger, for keeping elsewhere."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.sealing import proofs
from runtime.maintenance.services import sealing, witnessing


class Command(BaseCommand):
    """Nothing else goes to stdout, so that a script can keep what it prints."""

    help = (
        "Seal what was committed and print the signed checkpoint. Keep it on another machine: "
        "manage.py verify_ledger --from FILE shows whether this ledger still begins with it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--heads",
            action="store_true",
            help="commit to the ends of all streams now, which is otherwise done once an hour",
        )
        parser.add_argument(
            "--witness",
            action="store_true",
            help="also send it to each witness of DIR_WITNESS now; exit code 1 if one does not take it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        sealing.seal_now(with_heads=options["heads"])
        newest = proofs.latest()
        if newest is None:
            raise CommandError("There is no checkpoint that can be read. Run manage.py verify_ledger.")
        self.stdout.write(newest.text, ending="")
        if options["witness"]:
            self._send(newest.checkpoint.size)

    def _send(self, size: int) -> None:
        if not settings.DIR_WITNESS:
            raise CommandError("No witness is configured: set DIR_WITNESS.")
        results = witnessing.send_now()
        if not results:
            raise CommandError("Nothing is sent while a restored backup waits: see manage.py leave_recovery.")
        for result in results:
            if result.error:
                self.stderr.write(f"{result.witness} did not take it: {result.error}.", style_func=str)
            else:
                self.stderr.write(f"{result.witness} took it: {size} entries.", style_func=str)
            if result.finding:
                self.stderr.write(f"{result.witness}: {result.finding} is not what this ledger signed.")
        wrong = [result.witness for result in results if result.error or result.finding]
        if wrong:
            raise CommandError(
                f"{len(wrong)} of {len(results)} witnesses need attention: {', '.join(wrong)}."
            )
