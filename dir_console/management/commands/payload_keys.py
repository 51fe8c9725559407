"""`manage.py payload_keys`: the keys that payloads are encrypted with."""

import sys
from argparse import ArgumentParser
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from audit import actors
from audit.payload_cipher import PayloadKeyError
from audit.payload_keys import ASK_AGAIN_S, PayloadClass
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.maintenance.services import payload_rotation

Answer = TypeVar("Answer")


class Command(BaseCommand):
    """Exit 1 where something was refused, with why."""

    help = "List the keys of payloads, rotate them, or wrap them with another key of the installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every key, with its class, state and number of payloads")
        rotate = actions.add_parser("rotate", help="begin another key, and encrypt what is older with it")
        which = rotate.add_mutually_exclusive_group(required=True)
        which.add_argument("data_class", nargs="?", choices=list(PayloadClass), metavar="CLASS")
        which.add_argument("--all", action="store_true", help="every class that has a key")
        rotate.add_argument(
            "--resume",
            action="store_true",
            help="begin no key: encrypt what is left under retired keys and in clear",
        )
        rewrap = actions.add_parser("rewrap", help="wrap every key with a DIR_PAYLOAD_KEY that was replaced")
        rewrap.add_argument(
            "--old-key-stdin", action="store_true", required=True, help="read the key before it from stdin"
        )

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            {"list": self._list, "rotate": self._rotate, "rewrap": self._rewrap}[action](options)
        except PayloadKeyError as error:
            raise CommandError(f"Refused: {error}.") from error
        except (transactions.BusyError, OperationalError) as error:
            raise CommandError("The database is busy. Run the command again.") from error

    def _list(self, options: dict[str, Any]) -> None:
        for line in payload_rotation.list_keys(tenant=settings.DIR_TENANT):
            created = f"{line.created_at:%Y-%m-%d %H:%M}"
            self.stdout.write(
                f"{line.data_class}  {line.key_id}  {line.state}  {created}  {line.payloads} payloads"
            )
        self.stdout.write(f"in clear: {payload_rotation.count_in_clear(tenant=settings.DIR_TENANT)} payloads")

    def _rotate(self, options: dict[str, Any]) -> None:
        tenant = settings.DIR_TENANT
        classes = list(PayloadClass) if options["all"] else [options["data_class"]]
        if not options["resume"]:
            for data_class in classes:
                begun = _done(
                    payload_rotation.begin(tenant=tenant, data_class=data_class, actor=actors.SYSTEM)
                )
                if begun is not None:
                    self.stdout.write(f"{data_class}: {begun.key_id} in use, {begun.retired} retired")
        moved = _done(
            payload_rotation.move(
                tenant=tenant,
                classes=classes,
                after=lambda done: self.stderr.write(f"{done.moved} payloads encrypted anew"),
            )
        )
        self.stdout.write(f"{moved.moved} payloads were encrypted anew")
        if moved.left:
            self.stdout.write(
                f"{moved.left} payloads cannot be opened and stay as they are: run verify_ledger"
            )
        if not options["resume"]:
            self.stderr.write(
                f"Running processes may use a retired key for {ASK_AGAIN_S} seconds more. Encrypt what they "
                "write with: payload_keys rotate --resume"
            )

    def _rewrap(self, options: dict[str, Any]) -> None:
        old = sys.stdin.readline().strip()
        count = _done(payload_rotation.rewrap(tenant=settings.DIR_TENANT, old=old, actor=actors.SYSTEM))
        self.stdout.write(f"{count} keys are wrapped anew")


def _done(answer: Answer | Problem) -> Answer:
    if isinstance(answer, Problem):
        raise CommandError(f"Refused: {answer.detail}")
    return answer
