"""`manage.py lint_pack FILE [--json]`: what loading a pack would refuse, and what linters say of it."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from dir_console import command_line
from runtime.packs.services import packs


class Command(BaseCommand):
    """Exit 0 when the pack can be loaded, warnings or not; 1 with every finding otherwise. Writes nothing."""

    help = "Check a pack, its workflows and its rulesets without loading it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="the pack, YAML in UTF-8")
        parser.add_argument("--json", action="store_true", help='print {"findings": [...]}')

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        text = command_line.read_file(file)
        found = packs.lint(text=text, source=file.name)
        if options["json"]:
            self.stdout.write(json.dumps({"findings": [asdict(one) for one in found]}, indent=2))
        else:
            for one in found:
                self.stdout.write(f"{one.severity} {one.code} {one.where}: {one.message}")
            if not found:
                self.stdout.write(f"{file.name}: no findings")
        if any(one.severity == "error" for one in found):
            raise SystemExit(1)
