"""`bind_token AGENT_ID --issuer I --subject S`: let tokens of a trusted issuer open sessions of an agent."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.registry.services import credentials


class Command(BaseCommand):
    """Prints the id of the binding, alone on stdout: `revoke_key` ends it."""

    help = "Bind a subject of a trusted issuer of tokens to an agent; revoke_key ends it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", help="the agent that the tokens are to be")
        parser.add_argument("--issuer", required=True, help="the issuer, as its tokens name it (iss)")
        parser.add_argument("--subject", required=True, help="the subject of the tokens (sub)")
        parser.add_argument("--environment", default="", help="where the tokens may be used, such as prod")

    def handle(self, *args: Any, **options: Any) -> None:
        bound = credentials.bind_token(
            tenant=settings.DIR_TENANT,
            agent_id=options["agent_id"],
            issuer=options["issuer"],
            subject=options["subject"],
            environment=options["environment"],
            actor=actors.SYSTEM,
        )
        if isinstance(bound, Problem):
            raise CommandError(bound.detail)
        self.stdout.write(bound.key_id)
