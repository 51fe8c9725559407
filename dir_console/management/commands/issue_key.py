"""`issue_key AGENT_ID`, `--feed NAME --prefix P` and `--auditor NAME`: print a new key to stdout."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors
from runtime.contracts.problem import Problem
from runtime.registry.services import credentials


class Command(BaseCommand):
    """Nothing else goes to stdout, so that a script can keep the key without cutting it out."""

    help = "Print a new key for an agent, a state feed or an auditor. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent_id", nargs="?", help="the agent that the key is for")
        parser.add_argument(
            "--environment", default="", help="where the agent's key may be used, such as prod"
        )
        parser.add_argument("--feed", help="the name of a state feed, instead of an agent")
        parser.add_argument("--prefix", help="what the feed may write, such as price.")
        parser.add_argument("--auditor", help="the name of somebody who may only read the audit API")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = settings.DIR_TENANT
        given = {
            name: value for name in ("agent_id", "feed", "prefix", "auditor") if (value := options[name])
        }
        match given:
            case {"agent_id": agent_id, **others} if not others:
                issued = credentials.issue_agent_key(
                    tenant=tenant,
                    agent_id=agent_id,
                    actor=actors.SYSTEM,
                    environment=options["environment"],
                )
            case {"feed": feed, "prefix": prefix, **others} if not others:
                issued = credentials.issue_feed_key(
                    tenant=tenant, feed=feed, prefix=prefix, actor=actors.SYSTEM
                )
            case {"auditor": auditor, **others} if not others:
                issued = credentials.issue_auditor_key(tenant=tenant, auditor=auditor, actor=actors.SYSTEM)
            case _:
                raise CommandError("Name an agent, or give --feed NAME and --prefix P, or --auditor NAME.")
        if isinstance(issued, Problem):
            raise CommandError(issued.detail)
        self.stdout.write(issued.text)
