"""`manage.py replay_verdicts [--dfid DFID]`: judge stored verdicts again and compare byte for byte."""

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from runtime.proposals.queries import verdict_replay


class Command(BaseCommand):
    """Exit 0 when every verdict comes out as it is stored; 1 names the first that does not."""

    help = "Replay every stored verdict from its stored input and rules. Read-only."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dfid", type=UUID, metavar="DFID", help="only the verdicts of this flow")

    def handle(self, *args: Any, **options: Any) -> None:
        result = verdict_replay.replay(dfid=options["dfid"])
        if isinstance(result, verdict_replay.Different):
            raise CommandError(
                f"The first difference: proposal {result.proposal_id} of flow {result.dfid}: {result.what}: "
                f"stored {result.stored}, found {result.found}."
            )
        self.stdout.write(f"{result.count} verdicts replayed: all identical, byte for byte.")
