"""`manage.py payload_keys`: the keys that payloads are encrypted with."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from audit import actors
from audit.payload_cipher import PayloadKeyError
from audit.payload_keys import ASK_AGAIN_S, PayloadClass
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.maintenance.services import payload_destruction, payload_rotation

Answer = TypeVar("Answer")
LONGEST_REASON = 500


class Command(BaseCommand):
    """Exit 1 where something was refused, with why."""

    help = (
        "List the keys of payloads, rotate them, wrap them with another key of the installation, or destroy "
        "retired ones with what is under them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every key, with its class, state and number of payloads")
        rotate = actions.add_parser("rotate", help="begin another key, and encrypt what is older with it")
        which = rotate.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "data_class", nargs="?", choices=[one.value for one in PayloadClass], metavar="CLASS"
        )
        which.add_argument("--all", action="store_true", help="every class that has a key")
        how = rotate.add_mutually_exclusive_group()
        how.add_argument(
            "--key-only",
            action="store_true",
            help="leave what is older under its keys, to be destroyed with them",
        )
        how.add_argument(
            "--resume",
            action="store_true",
            help="begin no key: encrypt what is left under retired keys and in clear",
        )
        rewrap = actions.add_parser("rewrap", help="wrap every key with a DIR_PAYLOAD_KEY that was replaced")
        rewrap.add_argument(
            "--old-key-stdin", action="store_true", required=True, help="read the key before it from stdin"
        )
        destroy = actions.add_parser("destroy", help="erase every payload that is under a retired key")
        destroy.add_argument("data_class", metavar="CLASS")
        keys = destroy.add_mutually_exclusive_group(required=True)
        keys.add_argument("key_id", nargs="?", type=UUID, metavar="KEY_ID")
        keys.add_argument("--retired", action="store_true", help="every retired key of the class")
        destroy.add_argument("--reason", required=True, help="kept beside the ledger, behind a commitment")
        destroy.add_argument("--dry-run", action="store_true", help="only say what would be erased")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            {
                "list": self._list,
                "rotate": self._rotate,
                "rewrap": self._rewrap,
                "destroy": self._destroy,
            }[action](options)
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
        if not options["key_only"]:
            self._move(tenant, classes)
        if not options["resume"] and not options["key_only"]:
            self.stderr.write(
                f"Running processes may use a retired key for {ASK_AGAIN_S} seconds more. Encrypt what they "
                f"write with: payload_keys rotate {options['data_class'] or '--all'} --resume"
            )

    def _move(self, tenant: str, classes: Sequence[str]) -> None:
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

    def _rewrap(self, options: dict[str, Any]) -> None:
        old = sys.stdin.readline().strip()
        count = _done(payload_rotation.rewrap(tenant=settings.DIR_TENANT, old=old, actor=actors.SYSTEM))
        self.stdout.write(f"{count} keys are wrapped anew")

    def _destroy(self, options: dict[str, Any]) -> None:
        tenant, data_class, is_dry = settings.DIR_TENANT, options["data_class"], options["dry_run"]
        reason = options["reason"].strip()
        if not 0 < len(reason) <= LONGEST_REASON or "\x00" in reason:
            raise CommandError(f"Give a reason of at most {LONGEST_REASON} characters.")
        keys = [options["key_id"]]
        if options["retired"]:
            keys = payload_destruction.list_retired(tenant=tenant, data_class=data_class)
        refused = []
        for key_id in keys:
            answer = payload_destruction.destroy(
                tenant=tenant,
                data_class=data_class,
                key_id=key_id,
                reason=reason,
                actor=actors.SYSTEM,
                is_dry=is_dry,
            )
            if isinstance(answer, Problem):
                refused.append(answer.detail)
                continue
            verb = "would be destroyed" if is_dry else "is destroyed"
            self.stdout.write(f"{key_id} {verb}, and {answer.payloads} payloads erased with it")
        if refused:
            raise CommandError("Refused: " + " ".join(refused))


def _done(answer: Answer | Problem) -> Answer:
    if isinstance(answer, Problem):
        raise CommandError(f"Refused: {answer.detail}")
    return answer
