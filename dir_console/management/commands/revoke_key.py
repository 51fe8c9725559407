"""`revoke_key KEY_ID`: revoke a key and end every session that it opened."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.registry.services import credentials


class Command(BaseCommand):
    help = "Revoke a key by its id, the part before the dot. Its sessions end with it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key_id", help="such as agk_0123456789abcdef")

    def handle(self, *args: Any, **options: Any) -> None:
        # Whoever pastes the whole key means its id; the secret goes no further than here.
        key_id = options["key_id"].partition(".")[0]
        revoked = credentials.revoke_key(key_id=key_id, actor=actors.SYSTEM)
        if isinstance(revoked, Problem):
            raise CommandError(revoked.detail)
        self.stderr.write(f"{key_id} is revoked.")
