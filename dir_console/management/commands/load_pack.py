"""`manage.py load_pack FILE [--activate]`: validate, lint and register a pack."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit import actors
from dir_console import command_line
from runtime.core import transactions
from runtime.packs.services import packs


class Command(BaseCommand):
    """Exit 0 when the pack is loaded, also when it was loaded before; 1 with every problem otherwise."""

    help = "Validate, lint and register a pack of policy kinds, agents and targets. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="the pack, YAML in UTF-8")
        parser.add_argument(
            "--activate", action="store_true", help="activate its kinds and manifests once registered"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        text = command_line.read_file(file)
        try:
            result = packs.load(
                text=text, source=file.name, activate=options["activate"], actor=actors.SYSTEM
            )
        except transactions.BusyError as error:
            raise CommandError("The database is busy; nothing was loaded. Run the command again.") from error
        if isinstance(result, packs.PackRefused):
            raise CommandError("\n".join(("Nothing was loaded.", *result.problems)))
        for warning in result.warnings:
            self.stderr.write(f"warning: {warning}")
        for name in result.registered:
            self.stdout.write(f"registered {name}")
        for name in result.activated:
            self.stdout.write(f"activated {name}")
        state = "loaded" if result.changed else "unchanged"
        self.stdout.write(f"{result.pack} {result.version}: {state}")
