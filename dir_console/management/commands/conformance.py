"""conformance: try what the papers behind the product ask for on this installation, and say what came out."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dir_console.conformance import run, sample
from dir_console.conformance.items import Answer


class Command(BaseCommand):
    """Exit 0 where no answer is no, 1 where one is."""

    help = "Try every conformance item on this installation. Reads only; takes some seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
        parser.add_argument(
            "--sample",
            type=int,
            default=sample.SIZE,
            metavar="N",
            help=f"how many of the newest ended flows to look at: 1 to {sample.MOST} (default {sample.SIZE})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        size = options["sample"]
        if not 1 <= size <= sample.MOST:
            raise CommandError(f"--sample takes a number from 1 to {sample.MOST}.", returncode=2)
        report = run.run(tenant=settings.DIR_TENANT, size=size).plain()
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            self._print(report)
        refused = [item["id"] for item in report["items"] if item["answer"] == Answer.NO.value]
        if refused:
            raise CommandError(f"Not conformant: {', '.join(refused)}.")

    def _print(self, report: dict[str, Any]) -> None:
        group = ""
        for item in report["items"]:
            if item["group"] != group:
                group = item["group"]
                self.stdout.write(f"\n{group}\n")
            self.stdout.write(
                f"  {item['answer']:<15} {item['id']:<16} {item['source']} ({item['seconds']} s)"
            )
            for name in ("tried", "seen", "why"):
                if item[name]:
                    self.stdout.write(f"      {name:<6} {item[name]}")
            for test in item["tests"]:
                self.stdout.write(f"      test   {test}")
        for framework in report["frameworks"]:
            self.stdout.write(f"\n{framework['name']}\n")
            for each in framework["requirements"]:
                served = ", ".join((*each["served_by"], *(f"docs/{page}.md" for page in each["pages"])))
                self.stdout.write(f"  {each['cover']:<12} {each['ref']:<16} {each['asks']}")
                self.stdout.write(f"      {each['how']}{f' ({served})' if served else ''}")
        counts = ", ".join(f"{count} {answer}" for answer, count in report["answers"].items())
        ready = "ready" if report["ready"] else "not ready"
        self.stdout.write(
            f"\n{counts}; by ContextOS's checklist {ready}. {report['seconds']} seconds, {report['at']}."
        )
